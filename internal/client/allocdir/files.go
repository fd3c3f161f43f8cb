package allocdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/wire"
)

// fileID tells files apart whatever they are called.
type fileID struct{ dev, ino uint64 }

// open opens a path of the alloc for reading: beneath its directory, whatever symbolic links the tasks have laid, and
// never in a secrets directory, which is recognised by its inode and not by its name. The file is not read yet, so that
// a pipe can't hang the caller.
func (d Dir) open(path string) (*os.File, fs.FileInfo, error) {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, nil, classify(err, "open", fmt.Sprintf("directory of allocation %q", d.id))
	}
	defer func() { _ = root.Close() }() // opened for reading
	f, err := root.OpenFile(inside(path), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, d.refused(err, path)
	}
	info, err := f.Stat()
	if err == nil {
		err = d.notSecret(f, path)
	}
	if err != nil {
		_ = f.Close() // opened for reading
		return nil, nil, err
	}
	return f, info, nil
}

func (d Dir) refused(err error, path string) error {
	subject := fmt.Sprintf("%q of allocation %q", path, d.id)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return fault.Wrap(err, fault.NotFound, "open", subject)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		return fault.Wrap(err, fault.Invalid, "open", subject)
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) && !errors.As(pathErr.Err, new(unix.Errno)) {
		return fault.WithHint(fault.Wrap(err, fault.Denied, "open", subject),
			"only files inside the allocation's directory can be read")
	}
	return classify(err, "open", subject)
}

// inside makes a path relative to the alloc's directory.
func inside(path string) string {
	path = strings.TrimPrefix(filepath.Clean("/"+path), "/")
	if path == "" {
		return "."
	}
	return path
}

// secrets lists the inodes of the tasks' secrets directories.
func (d Dir) secrets() (map[fileID]bool, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, classify(err, "list", d.path)
	}
	out := map[fileID]bool{}
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(d.path, e.Name(), Secrets), &st) == nil {
			out[fileID{st.Dev, st.Ino}] = true
		}
	}
	return out, nil
}

// notSecret walks from an open file up to the alloc's directory and refuses when one of them is a secrets directory.
func (d Dir) notSecret(f *os.File, path string) error {
	secrets, err := d.secrets()
	if err != nil {
		return err
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return classify(err, "resolve", path)
	}
	base, err := filepath.EvalSymlinks(d.path)
	if err != nil {
		return classify(err, "resolve", d.path)
	}
	for at != base && strings.HasPrefix(at, base+"/") {
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err == nil && secrets[fileID{st.Dev, st.Ino}] {
			return fault.New(fault.Denied, "open", fmt.Sprintf("%q of allocation %q", path, d.id),
				"the secrets of a task can't be read from outside")
		}
		at = filepath.Dir(at)
	}
	return nil
}

// Stat describes a file.
func (d Dir) Stat(path string) (wire.FileInfo, error) {
	f, info, err := d.open(path)
	if err != nil {
		return wire.FileInfo{}, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	return describe(info, contentType(f, info)), nil
}

// maxListed is how many entries of a directory are listed: it may have as many as its disk takes.
const maxListed = 50_000

// List lists a directory. A secrets directory is named but can't be entered.
func (d Dir) List(path string) ([]wire.FileInfo, error) {
	f, info, err := d.open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	if !info.IsDir() {
		return []wire.FileInfo{describe(info, "")}, nil
	}
	entries, err := f.ReadDir(maxListed + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, classify(err, "list", path)
	}
	if len(entries) > maxListed {
		return nil, fault.WithHint(fault.New(fault.Invalid, "list", fmt.Sprintf("%q of allocation %q", path, d.id),
			fmt.Sprintf("it has more than %d entries", maxListed)),
			"list it in the task: berth alloc exec "+string(d.id)+" ls")
	}
	out := make([]wire.FileInfo, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // a file that vanished meanwhile is not listed
			out = append(out, describe(info, ""))
		}
	}
	sortFiles(out)
	return out, nil
}

// readable is the name of a file as text, which a task may have given it any bytes for.
func readable(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

func describe(info fs.FileInfo, content string) wire.FileInfo {
	return wire.FileInfo{
		Name:        readable(info.Name()),
		IsDir:       info.IsDir(),
		Size:        info.Size(),
		FileMode:    info.Mode().String(),
		ModTime:     info.ModTime(),
		ContentType: content,
	}
}

// contentType guesses from the name, then from the first bytes of a plain file.
func contentType(f *os.File, info fs.FileInfo) string {
	const unknown = "application/octet-stream"
	if !info.Mode().IsRegular() {
		return unknown
	}
	if t := mime.TypeByExtension(filepath.Ext(info.Name())); t != "" {
		return t
	}
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return unknown
	}
	return http.DetectContentType(head[:n])
}
