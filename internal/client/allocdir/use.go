package allocdir

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Use is what an alloc's directory takes of the node's disk.
type Use struct {
	// Bytes that files occupy, not how long they say to be: each at least a block, so that any number of empty ones is
	// a use as well; one with several names once.
	Bytes   int64
	Entries int // files and directories
	// Places are the directories that hold all that, the largest first: what the tasks share, and each task's own.
	Places []Place
	// TooDeep: directories lie in each other deeper than is looked at, so that Bytes is not all of it.
	TooDeep bool
	// Charged: the kernel counts what is taken, also by files that are open and have no name any more.
	Charged bool
	// Enclosed: the directory is a file system of its own, which takes no more than it was made for.
	Enclosed bool
}

// Place is a directory of an alloc, relative to its own.
type Place struct {
	Name  string
	Bytes int64
}

// Use measures what the alloc's directory takes. It passes through no link and onto no other mount: volumes, secrets
// and what else is mounted below count as nothing. What is made or removed meanwhile may be counted or not.
func (d Dir) Use(ctx context.Context) (Use, error) {
	if enclosed, err := d.enclosed(); err != nil {
		return Use{}, err
	} else if enclosed {
		return d.filled()
	}
	if u, bounded, err := d.projects().Used(filepath.Base(d.path)); err != nil || bounded {
		return Use{Bytes: u.Bytes, Charged: bounded}, err
	}
	m, err := measured(ctx, d.path)
	if err != nil {
		return Use{}, err
	}
	for name, n := range m.places {
		if name == "." {
			name = "the directory of the allocation itself"
		}
		m.use.Places = append(m.use.Places, Place{Name: name, Bytes: n})
	}
	slices.SortFunc(m.use.Places, func(a, b Place) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return m.use, nil
}

// With adds what a directory takes that an alloc writes elsewhere, under the name that people know it by, and returns
// that by itself: a file system of the alloc's own does not bound it.
func (u *Use) With(ctx context.Context, dir, name string) (Use, error) {
	m, err := measured(ctx, dir)
	if err != nil || m.use.Entries == 0 {
		return Use{}, err
	}
	u.Entries += m.use.Entries
	u.TooDeep = u.TooDeep || m.use.TooDeep
	u.Add(Place{Name: name, Bytes: m.use.Bytes})
	return m.use, nil
}

// Add adds what is taken in a place that no directory shows.
func (u *Use) Add(p Place) {
	u.Bytes += p.Bytes
	u.Places = append(u.Places, p)
	slices.SortStableFunc(u.Places, func(a, b Place) int { return cmp.Compare(b.Bytes, a.Bytes) })
}

// Occupied is how many bytes of the node's disk the directories of all allocs beneath base take, measured as each is.
// What is mounted there counts as nothing, the images of the allocs' own file systems do. It is what is missing from
// the disk's free room on their account, so here a file counts as what it occupies, and an empty one as nothing.
func Occupied(ctx context.Context, base string) (int64, error) {
	m, err := measured(ctx, base)
	return m.occupied, err
}

// Taken measures any directory of an alloc as Use does the alloc's own.
func Taken(ctx context.Context, dir string) (Use, error) {
	m, err := measured(ctx, dir)
	return m.use, err
}

type measure struct {
	use      Use
	occupied int64           // bytes of the disk
	seen     map[uint64]bool // files with several names
	places   map[string]int64
}

// measured measures a directory; one that is not there is empty.
func measured(ctx context.Context, path string) (*measure, error) {
	m := &measure{seen: map[uint64]bool{}, places: map[string]int64{}}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return m, nil
	}
	if err == nil {
		err = m.directory(ctx, fd, ".", 0)
	}
	return m, classify(err, "measure", path)
}

// Names are read in pieces: a task may put any number of them into a directory.
const namesAtOnce = 1024

const (
	statUnit   = 512  // of stat's blocks, in bytes
	leastBytes = 4096 // that a file or a directory counts as
	mostPlaces = 64   // that are named one by one: tasks may make any number in the directory that they share
)

// directory measures an open directory, and closes it. What lies deeper than Deepest is not looked at: that there is
// anything is more than an alloc may have.
func (m *measure) directory(ctx context.Context, fd int, path string, depth int) error {
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }() // opened for reading
	for {
		names, err := f.Readdirnames(namesAtOnce)
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) {
			return nil // that is all, or it was removed meanwhile
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, name := range names {
			if err := m.entry(ctx, fd, name, filepath.Join(path, readable(name)), depth); err != nil {
				return err
			}
		}
	}
}

func (m *measure) entry(ctx context.Context, parent int, name, path string, depth int) error {
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) {
		return nil // gone, or mounted there
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // it only names the file
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	m.count(path, &st)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	if depth >= Deepest {
		m.use.TooDeep = true
		return nil
	}
	below, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	return m.directory(ctx, below, path, depth+1)
}

func (m *measure) count(path string, st *unix.Stat_t) {
	m.use.Entries++
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
		if m.seen[st.Ino] {
			return
		}
		m.seen[st.Ino] = true
	}
	m.occupied += st.Blocks * statUnit
	bytes := max(st.Blocks*statUnit, leastBytes)
	m.use.Bytes += bytes
	at := place(path)
	if _, named := m.places[at]; !named && len(m.places) >= mostPlaces {
		at = "other directories"
	}
	m.places[at] += bytes
}

// place is the directory that something counts for: "alloc/data" of what tasks share, "web/local" of a task's own.
func place(path string) string {
	dir := filepath.Dir(path)
	for dir != "." && filepath.Dir(filepath.Dir(dir)) != "." {
		dir = filepath.Dir(dir)
	}
	return dir
}
