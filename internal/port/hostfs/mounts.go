// Package hostfs owns the node's own view of its file systems: the mount table as the kernel tells it, and removal that
// never crosses a mount. It reads /proc/self/mountinfo and never stats a foreign mount, because that may hang for ever.
package hostfs

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Mount is one line of the mount table.
type Mount struct {
	ID       int
	Path     string // mount point
	Device   string // major:minor
	Root     string // within the file system
	Source   string
	FSType   string
	ReadOnly bool // of the mount or of its file system
	Shared   bool
	// Dead is the kernel's own word that the file system takes no writes any more though it was not made read-only;
	// empty: it says none.
	Dead string
}

// Table is one reading of the mount table, in mount order. It never changes, and is shared.
type Table struct {
	mounts []Mount
	byPath []int // indices of mounts in the order of their paths, those of one path in mount order
}

// ReadTable returns the table of this process's mount namespace. It is read again only when the kernel says that it
// changed: by each mount and unmount, and when a mount is made read-only or writable, but not when a file system
// becomes read-only by itself, nor when a directory above a mount is renamed: those are seen by ReadTableAnew.
func ReadTable() (*Table, error) { return lastTable.read(math.MaxInt64) }

// ReadTableAnew returns the table as it is now, with what no event tells.
func ReadTableAnew() (*Table, error) { return lastTable.read(0) }

// ReadTableWithin returns the table with what no event tells as it was at most so long ago. A table of thousands of
// mounts takes milliseconds to read: who asks for each of many volumes shares a reading with the others.
func ReadTableWithin(age time.Duration) (*Table, error) { return lastTable.read(age) }

// kept is the last reading, with the open file by which the kernel tells whether it is still right.
type kept struct {
	mu    sync.Mutex
	file  *os.File
	table *Table
	at    time.Time // when it began
}

var lastTable kept

func (k *kept) read(age time.Duration) (*Table, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		// It stays open for as long as the process lives. os.Open would let the runtime wait for its events, and they
		// are reported once to whoever asks first.
		fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fault.Wrap(err, fault.Internal, "open", "the mount table")
		}
		k.file = os.NewFile(uintptr(fd), "/proc/self/mountinfo")
	}
	changed, err := tableChanged(k.file)
	if err == nil && k.table != nil && !changed && time.Since(k.at) < age {
		return k.table, nil
	}
	k.table = nil
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "ask for changes of", "the mount table")
	}
	k.at = time.Now()
	if _, err := k.file.Seek(0, io.SeekStart); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "the mount table")
	}
	infos, err := mountinfo.GetMountsFromReader(k.file, nil)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "the mount table")
	}
	k.table = tableOf(infos)
	return k.table, nil
}

// MountsOf lists the mounts that a process sees, with paths as it sees them. One that is gone sees none.
func MountsOf(pid int) ([]Mount, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open", fmt.Sprintf("the mount table of process %d", pid))
	}
	defer func() { _ = f.Close() }() // opened for reading
	infos, err := mountinfo.GetMountsFromReader(f, nil)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil // it ended meanwhile
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", fmt.Sprintf("the mount table of process %d", pid))
	}
	return tableOf(infos).mounts, nil
}

// tableChanged reports whether the mount table has changed since this was asked last of an open file of it.
func tableChanged(f *os.File) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
	for {
		_, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return fds[0].Revents != 0, err
		}
	}
}

func tableOf(infos []*mountinfo.Info) *Table {
	mounts := make([]Mount, 0, len(infos))
	for _, i := range infos {
		mounts = append(mounts, Mount{
			ID:       i.ID,
			Path:     i.Mountpoint,
			Device:   fmt.Sprintf("%d:%d", i.Major, i.Minor),
			Root:     i.Root,
			Source:   i.Source,
			FSType:   i.FSType,
			ReadOnly: hasOption(i.Options, "ro") || hasOption(i.VFSOptions, "ro"),
			Shared:   strings.Contains(i.Optional, "shared:"),
			Dead:     dead(i.VFSOptions),
		})
	}
	return TableOf(mounts...)
}

// TableOf is a table of these mounts, in mount order.
func TableOf(mounts ...Mount) *Table {
	t := &Table{mounts: mounts}
	for i := range mounts {
		t.byPath = append(t.byPath, i)
	}
	slices.SortStableFunc(t.byPath, func(a, b int) int { return strings.Compare(t.mounts[a].Path, t.mounts[b].Path) })
	return t
}

// dead finds what ext4 adds to the options of a file system that it has given up.
func dead(options string) string {
	for _, o := range []string{"emergency_ro", "shutdown"} {
		if hasOption(options, o) {
			return o
		}
	}
	return ""
}

func hasOption(list, want string) bool { return slices.Contains(strings.Split(list, ","), want) }

// from is where in byPath the paths begin that are not before one.
func (t *Table) from(path string) int {
	i, _ := slices.BinarySearchFunc(t.byPath, path, func(i int, p string) int {
		return strings.Compare(t.mounts[i].Path, p)
	})
	return i
}

// exactly are the mounts at a path, in mount order.
func (t *Table) exactly(path string) []int {
	i := t.from(path)
	j := i
	for j < len(t.byPath) && t.mounts[t.byPath[j]].Path == path {
		j++
	}
	return t.byPath[i:j]
}

// At returns the topmost mount whose mount point is exactly path.
func (t *Table) At(path string) (Mount, bool) {
	here := t.exactly(filepath.Clean(path))
	if len(here) == 0 {
		return Mount{}, false
	}
	return t.mounts[here[len(here)-1]], true
}

// Over returns the mount that a path lies on, and where it lies within that file system.
func (t *Table) Over(path string) (m Mount, within string, ok bool) {
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if m, ok = t.At(at); ok {
			return m, filepath.Join(m.Root, strings.TrimPrefix(path, at)), true
		}
		if at == filepath.Dir(at) {
			return Mount{}, "", false
		}
	}
}

// Beneath returns the mounts at or below path, deepest last mounted first: the order in which they can be undone.
func (t *Table) Beneath(path string) []Mount {
	path = filepath.Clean(path)
	prefix := strings.TrimSuffix(path, "/") + "/"
	var found []int
	if path != "/" { // it is its own prefix
		found = slices.Clone(t.exactly(path))
	}
	for _, i := range t.byPath[t.from(prefix):] {
		if !strings.HasPrefix(t.mounts[i].Path, prefix) {
			break
		}
		found = append(found, i)
	}
	slices.Sort(found)
	var out []Mount
	for _, i := range slices.Backward(found) {
		out = append(out, t.mounts[i])
	}
	return out
}

// RemoveEmpty removes an empty directory or a plain file that is not a mount point and has none below it. What is not
// there is no error; a directory with content is kept and named in a fault.Conflict.
func RemoveEmpty(path string) error {
	t, err := ReadTable()
	if err != nil {
		return err
	}
	return t.RemoveEmpty(path)
}

// RemoveEmpty is RemoveEmpty by this reading, for whoever knows that nothing was mounted there since.
func (t *Table) RemoveEmpty(path string) error {
	if m := t.Beneath(path); len(m) > 0 {
		return fault.New(fault.Busy, "remove", path, "something is still mounted at "+m[0].Path)
	}
	st, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return fault.Wrap(err, fault.Internal, "remove", path)
	case st.IsDir():
		if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
			return fault.New(fault.Conflict, "remove", path,
				fmt.Sprintf("the directory is not empty: it holds %q", entries[0].Name()))
		}
	}
	return fault.Wrap(os.Remove(path), fault.Internal, "remove", path)
}
