package fingerprint

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/port/hostfs"
)

// leastChange is the smallest change of the room on a disk that is worth telling the servers, in MiB; of a large one it
// is a fiftieth.
const leastChange = 16

// Disk follows how much of a file system allocs may ask for: what is free, and what their own files take, which what
// they asked for covers. The zero value has looked at nothing.
type Disk struct {
	free, offered int64 // in MiB, at the last look that counted
	looked        bool
}

// Look returns how much allocs may ask for in all, in MiB. A small change of what is free is none.
func (d *Disk) Look(path, allocs string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fault.Wrap(err, fault.Internal, "read the capacity of", path)
	}
	free := int64(st.Bavail * uint64(st.Bsize) >> 20)
	if change := max(free-d.free, d.free-free); d.looked && change < max(leastChange, d.free/50) {
		return d.offered, nil
	}
	used, err := usedBeneath(allocs)
	if err != nil {
		return 0, err
	}
	d.free, d.offered = free, free+used>>20
	d.looked = true
	return d.offered, nil
}

// usedBeneath is how many bytes the files beneath a directory take. It asks nothing of what is mounted there: that is
// another file system, and one that hangs would hold up whoever asks.
func usedBeneath(dir string) (total int64, err error) {
	table, err := hostfs.ReadTable()
	if err != nil {
		return 0, err
	}
	mounted := map[string]bool{}
	for _, m := range table.Beneath(dir) {
		mounted[m.Path] = m.Path != dir
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it ended meanwhile
			return nil
		case err != nil:
			return err
		case mounted[path] && e.IsDir():
			return fs.SkipDir
		case mounted[path] || e.IsDir():
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			total += st.Blocks * 512
		}
		return nil
	})
	if err != nil {
		return 0, fault.Wrap(err, fault.Internal, "read what allocations use in", dir)
	}
	return total, nil
}
