package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/flock"
	"berth/internal/base/sizes"
	"berth/internal/base/sparse"
)

// unfinished is what a backup is called while it is written.
const unfinished = ".tmp"

// mark lies in a directory that a backup is being written into, so that what an interrupted one left is told from what
// belongs to somebody else.
const mark = "UNFINISHED"

// marks are what tells it: at the very end it is the manifest.
var marks = []string{mark, ManifestFile}

// Writer writes a backup. Every file is on disk when its call returns; Finish gives the whole its name.
type Writer struct {
	// Manifest is written last; Files are added by the calls.
	Manifest Manifest
	// Replaced: what an interrupted backup had left under the name was removed.
	Replaced bool
	// Progress hears of bytes that were copied.
	Progress Progress
	// Step is called before each change; tests end the process there.
	Step func(what string)

	dest, tmp string
	lock      *os.File
	done      bool
}

// Begin begins a backup that will be called dest, which nothing may be called yet; its parent must be there.
func Begin(dest string, step func(string)) (w *Writer, err error) {
	dest, err = filepath.Abs(dest)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "write", "backup")
	}
	w = &Writer{dest: dest, tmp: dest + unfinished, Step: step}
	if w.Step == nil {
		w.Step = func(string) {}
	}
	w.Manifest = Manifest{Format: Format, Begun: time.Now().UTC()}
	if err := w.free(); err != nil {
		return nil, err
	}
	if err := w.clear(); err != nil {
		return nil, err
	}
	w.Step("make directory")
	switch err := os.Mkdir(w.tmp, 0o700); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.WithHint(fault.New(fault.NotFound, "write", "backup "+dest,
			"the directory "+filepath.Dir(dest)+" is not there"),
			"mount the disk that it is to be on, or make it: mkdir -p "+filepath.Dir(dest))
	case err != nil:
		return nil, fault.Wrap(err, fault.Invalid, "write", "backup "+dest)
	}
	if w.lock, err = takeTmp(w.tmp); err != nil {
		return nil, err
	}
	w.Step("mark directory")
	if err := fillFile(filepath.Join(w.tmp, mark), func(*os.File) error { return nil }); err != nil {
		return nil, errors.Join(fault.Wrap(err, fault.Internal, "write", "backup "+dest), w.Close())
	}
	return w, nil
}

// free refuses a name that is taken.
func (w *Writer) free() error {
	switch _, err := os.Lstat(w.dest); {
	case err == nil:
		return fault.WithHint(fault.New(fault.Conflict, "write", "backup "+w.dest, "it is there already"),
			"choose a name that is not taken, or move what is there away")
	case !errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(err, fault.Invalid, "write", "backup "+w.dest)
	}
	return nil
}

// clear removes what an interrupted backup left.
func (w *Writer) clear() error {
	entries, err := os.ReadDir(w.tmp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "write", "backup "+w.dest)
	}
	lock, err := takeTmp(w.tmp)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // what it locked is gone
	ours := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(marks, e.Name()) })
	if len(entries) > 0 && !ours {
		return fault.WithHint(fault.New(fault.Conflict, "write", "backup "+w.dest,
			w.tmp+" is in the way, and is not what an interrupted backup leaves"),
			"move it away, or choose another name")
	}
	w.Step("remove what was left")
	if err := removeMarked(w.tmp); err != nil {
		return fault.Wrap(err, fault.Internal, "remove", w.tmp)
	}
	w.Replaced = true
	return nil
}

// removeMarked removes a directory, its marks last, so that what an interruption leaves is still known by it.
func removeMarked(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(marks, e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

func takeTmp(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "write", "backup in "+dir)
	}
	if err := flock.Try(f, syscall.LOCK_EX); err != nil {
		defer func() { _ = f.Close() }() // it was only opened
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fault.WithHint(fault.New(fault.Busy, "write", "backup in "+dir, "another backup writes there"),
				"wait for it, or choose another name")
		}
		return nil, fault.Wrap(err, fault.Internal, "lock", dir)
	}
	return f, nil
}

// Fits refuses, with figures, to begin what the file system of the backup cannot hold.
func (w *Writer) Fits(need int64) error { return fitsInto(w.tmp, "backup "+w.dest, need) }

func fitsInto(dir, what string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fault.Wrap(err, fault.Internal, "measure the room of", dir)
	}
	if have := int64(st.Bavail) * st.Bsize; have < need {
		a, b := sizes.Differing(need, have)
		return fault.WithHint(fault.New(fault.Exhausted, "write", what,
			fmt.Sprintf("it takes about %s, and its file system has %s left", a, b)),
			"make room there, or choose a place on another disk")
	}
	return nil
}

// Add writes a file without holes; path is beneath the backup.
func (w *Writer) Add(path string, r io.Reader) error {
	h := sha256.New()
	var size int64
	err := w.file(path, func(f *os.File) (err error) {
		size, err = io.Copy(io.MultiWriter(f, h), r)
		return err
	})
	if err != nil {
		return err
	}
	w.Manifest.Files = append(w.Manifest.Files, File{Path: path, Size: size, SHA256: hex.EncodeToString(h.Sum(nil))})
	return nil
}

// AddFile writes a copy of the small file at from, which may change meanwhile: it is read at once.
func (w *Writer) AddFile(path, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "back up", from)
	}
	return w.Add(path, bytes.NewReader(data))
}

// AddSparse writes a copy of a file that nobody changes any more; holes stay holes.
func (w *Writer) AddSparse(ctx context.Context, path, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "back up", from)
	}
	defer func() { _ = src.Close() }() // it was only read
	added := File{Path: path, Sparse: true}
	err = w.file(path, func(f *os.File) (err error) {
		if added.SHA256, err = sparse.Copy(ctx, f, src, w.Progress.of(path)); err != nil {
			return err
		}
		st, err := f.Stat()
		if err == nil {
			added.Size = st.Size()
		}
		return err
	})
	if err == nil {
		w.Manifest.Files = append(w.Manifest.Files, added)
	}
	return err
}

// file makes a file, with its directories, and has it and its name survive.
func (w *Writer) file(path string, fill func(*os.File) error) error {
	at := filepath.Join(w.tmp, path)
	w.Step("write " + path)
	if err := fillFile(at, fill); err != nil {
		return fault.Wrap(err, fault.Internal, "write", at)
	}
	return nil
}

func fillFile(at string, fill func(*os.File) error) error {
	if err := durable.MakeDir(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(at))
}

// Drop takes back what was added beneath a path.
func (w *Writer) Drop(path string) error {
	kept := w.Manifest.Files[:0]
	for _, f := range w.Manifest.Files {
		if f.Path != path && !strings.HasPrefix(f.Path, path+"/") {
			kept = append(kept, f)
		}
	}
	w.Manifest.Files = kept
	if err := os.RemoveAll(filepath.Join(w.tmp, path)); err != nil {
		return fault.Wrap(err, fault.Internal, "remove", filepath.Join(w.tmp, path))
	}
	return nil
}

// Finish writes the manifest and gives the backup its name.
func (w *Writer) Finish() error {
	w.Manifest.Ended = time.Now().UTC()
	if err := w.finish(); err != nil {
		return fault.Wrap(err, fault.Internal, "finish", "backup "+w.dest)
	}
	w.done = true
	return nil
}

func (w *Writer) finish() error {
	data, err := json.MarshalIndent(&w.Manifest, "", "  ")
	if err != nil {
		return err
	}
	lines := []string{sumLine(digest(data), ManifestFile)}
	for _, f := range w.Manifest.Files {
		if !f.Sparse {
			lines = append(lines, sumLine(f.SHA256, f.Path))
		}
	}
	w.Step("write " + SumsFile)
	if err := durable.WriteFile(filepath.Join(w.tmp, SumsFile), []byte(strings.Join(lines, "\n")+"\n"),
		0o600); err != nil {
		return err
	}
	w.Step("write " + ManifestFile)
	if err := durable.WriteFile(filepath.Join(w.tmp, ManifestFile), data, 0o600); err != nil {
		return err
	}
	w.Step("remove mark")
	if err := os.Remove(filepath.Join(w.tmp, mark)); err != nil {
		return err
	}
	if err := durable.SyncDir(w.tmp); err != nil {
		return err
	}
	w.Step("rename")
	err = unix.Renameat2(unix.AT_FDCWD, w.tmp, unix.AT_FDCWD, w.dest, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // a file system that cannot refuse by itself
		if err = w.free(); err == nil {
			err = os.Rename(w.tmp, w.dest)
		}
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(w.dest))
}

// Close ends the writing. What was not finished is removed.
func (w *Writer) Close() error {
	var err error
	if !w.done {
		err = removeMarked(w.tmp)
	}
	return errors.Join(err, flock.Release(w.lock))
}

// Allocated is how many bytes a file takes from its file system.
func Allocated(path string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return st.Blocks * 512, nil
}
