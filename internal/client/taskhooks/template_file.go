package taskhooks

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// file is what a rendering becomes.
type file struct {
	mode     os.FileMode
	uid, gid int
}

// write puts a rendering in its place, beneath its root whatever links a task laid there, and whole or not at all.
func (o *file) write(dir, rel string, data []byte) (changed bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, fault.Wrap(err, fault.Internal, "open", dir)
	}
	defer func() { _ = root.Close() }() // opened for paths only
	if kept, err := o.keep(root, rel, data); kept || err != nil {
		return false, writeFault(err)
	}
	if err := o.parents(root, path.Dir(rel)); err != nil {
		return false, writeFault(err)
	}
	tmp := path.Join(path.Dir(rel), ".template-"+ids.Segment(rel))
	_ = root.Remove(tmp) // left by a crash, if at all; the exclusive create below decides
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, o.mode)
	if err != nil {
		return false, writeFault(err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = o.own(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = root.Rename(tmp, rel)
	}
	if st, lerr := root.Lstat(rel); err != nil && lerr == nil && st.IsDir() {
		err = errors.Join(root.Remove(tmp), fault.WithHint(
			fault.New(fault.Invalid, "", "", "a directory lies in its place"),
			"let the task make it elsewhere; or give the template another destination"))
	}
	return true, writeFault(err)
}

// keep leaves a file in its place that holds the rendering already, and reports whether it does. What lies there is the
// task's: nothing but a plain file of the right size is opened, without waiting for anybody, and no more of it is read
// than the rendering has.
func (o *file) keep(root *os.Root, rel string, data []byte) (bool, error) {
	same := func(st fs.FileInfo) bool { return st.Mode().IsRegular() && st.Size() == int64(len(data)) }
	if st, err := root.Lstat(rel); err != nil || !same(st) {
		return false, nil // it is replaced, whatever it is
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return false, nil
	}
	defer func() { _ = f.Close() }() // opened for reading
	if st, err := f.Stat(); err != nil || !same(st) {
		return false, nil
	}
	old := make([]byte, len(data))
	if _, err := io.ReadFull(f, old); err != nil || !bytes.Equal(old, data) {
		return false, nil
	}
	return true, o.own(f)
}

// parents makes the directories that a rendering lies in; those that are missing become the owner's.
func (o *file) parents(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if _, err := root.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := o.parents(root, path.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil || o.uid < 0 && o.gid < 0 {
		return err
	}
	return root.Lchown(dir, o.uid, o.gid)
}

// own gives an open file its owner and its mode: by its name it could be another meanwhile.
func (o *file) own(f *os.File) error {
	if o.uid >= 0 || o.gid >= 0 {
		if err := f.Chown(o.uid, o.gid); err != nil {
			return err
		}
	}
	return f.Chmod(o.mode.Perm())
}

func writeFault(err error) error {
	if err == nil || fault.Has(err, fault.Invalid) {
		return err
	}
	return fault.Wrap(err, fault.Internal, "", "")
}
