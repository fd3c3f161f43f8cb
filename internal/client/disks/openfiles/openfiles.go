// Package openfiles owns the look for files that were removed but still are open or mapped: they occupy their file
// system, and no directory shows them. It finds them by the processes that hold them. Package disks imports it.
package openfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/port/hostfs"
)

// Most is how many descriptors, mappings and threads one look takes up, so that it takes a tenth of a second of one
// processor. Measured (BenchmarkAFullLook, two processors of a virtual machine): 5 to 8 us for each descriptor of a
// file that has a name, 40 us for one of a file that was removed, which is asked more and counts as dear others. Of
// more than Most a look sees a part, each time another one: what a task hides among any number of descriptors is found
// by a later look.
const (
	Most = 1 << 14
	dear = 8
)

// Found is what is held in files that were removed from a directory.
type Found struct {
	Bytes  map[string]int64 // by the name of the task whose processes hold them
	Looked int              // at descriptors, mappings and threads: what the look cost
}

// Look finds the files that were removed from below dir, on its own file system, and that processes of tasks hold, each
// once: by a descriptor of any thread, or by a mapping. It asks no other file system anything, since that may hang for
// ever. What is only on its way through a socket is not seen.
func Look(ctx context.Context, dir string, tasks map[string][]int, most int) (Found, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return Found{}, nil
	}
	if err != nil {
		return Found{}, fault.Wrap(err, fault.Internal, "look for removed files of", dir)
	}
	table, err := hostfs.ReadTable()
	if err != nil {
		return Found{}, err
	}
	on, within, ok := table.Over(dir)
	if !ok {
		return Found{}, fault.New(fault.Internal, "find", "the mount that "+dir+" lies on", "the mount table has none")
	}
	l := &look{
		dir:    dir,
		within: within,
		device: on.Device,
		left:   most,
		files:  map[uint64]bool{},
	}
	out := Found{Bytes: map[string]int64{}}
	for _, task := range slices.Sorted(maps.Keys(tasks)) {
		l.bytes = 0
		l.mounts, l.read = map[int]reach{}, map[int]bool{}
		l.unread = append(slices.Clone(tasks[task]), os.Getpid())
		order := slices.Clone(tasks[task])
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, pid := range order {
			if err := l.process(ctx, pid); err != nil && !gone(err) {
				return Found{}, fault.Wrap(err, fault.Internal, "look for removed files of",
					fmt.Sprintf("process %d of task %q", pid, task))
			}
		}
		if l.bytes > 0 {
			out.Bytes[task] = l.bytes
		}
	}
	out.Looked = most - l.left
	return out, nil
}

type look struct {
	dir, within, device string // the directory: its path, its place within its file system, and that one's device

	left   int
	files  map[uint64]bool // by inode
	tables shared          // of descriptors
	spaces shared          // of addresses
	mounts map[int]reach   // those that the task's processes see, by id
	read   map[int]bool    // threads whose mounts were read
	unread []int           // the task's processes, as far as their mounts were not looked for
	bytes  int64
	link   [unix.PathMax]byte
}

// reach is how a mount lies to the directory.
type reach int

const (
	elsewhere reach = iota
	inside          // everything on it lies in the directory
	around          // the directory lies on it: the path of a file decides
)

// gone is how the kernel speaks of a process, thread, descriptor or mapping that has ended.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

// proc is a file of a thread. It is asked by its own number, since a process's first thread may have ended before
// others.
func proc(tid int, name string) string { return filepath.Join("/proc", strconv.Itoa(tid), name) }

func (l *look) process(ctx context.Context, pid int) error {
	return l.each(ctx, fmt.Sprintf("/proc/%d/task", pid), 0, func(_ int, thread string) error {
		tid, err := strconv.Atoi(thread)
		if err != nil {
			return err
		}
		if l.spaces.add(tid, kcmpVM) {
			if err := l.mapped(tid); err != nil && !gone(err) {
				return err
			}
		}
		if !l.tables.add(tid, kcmpFiles) {
			return nil
		}
		return l.each(ctx, proc(tid, "fd"), l.start(tid), func(dir int, name string) error {
			return l.opened(tid, dir, name)
		})
	})
}

// start is where in a table the look begins: anywhere, where all of it may not be looked at.
func (l *look) start(tid int) int64 {
	status, err := os.ReadFile(proc(tid, "status"))
	if err != nil {
		return 0 // it has ended
	}
	_, after, _ := strings.Cut(string(status), "\nFDSize:")
	line, _, _ := strings.Cut(after, "\n")
	size, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || size <= l.left {
		return 0
	}
	return max(0, int64(rand.IntN(size+l.left)-l.left)) // as often at the beginning as anywhere
}

// Names are read in pieces: a process may have any number.
const namesAtOnce = 1024

// each visits the entries of a directory of /proc, as long as anything is left to look at.
func (l *look) each(ctx context.Context, path string, from int64, visit func(dir int, name string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // opened for reading
	if from > 0 {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			return err
		}
	}
	for {
		names, err := f.Readdirnames(namesAtOnce)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, name := range names {
			if l.left <= 0 {
				return nil
			}
			l.left--
			if err := visit(int(f.Fd()), name); err != nil && !gone(err) {
				return err
			}
		}
	}
}

// removed is how the kernel marks the path of a file whose name is gone.
const removed = " (deleted)"

func (l *look) opened(tid, dir int, name string) error {
	n, err := unix.Readlinkat(dir, name, l.link[:])
	if err != nil || !strings.HasSuffix(string(l.link[:n]), removed) {
		return err
	}
	l.left = max(0, l.left-(dear-1))
	info, err := os.ReadFile(proc(tid, "fdinfo/"+name))
	if err != nil {
		return err
	}
	_, after, _ := strings.Cut(string(info), "mnt_id:")
	line, _, _ := strings.Cut(after, "\n")
	mount, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	if ours, err := l.ours(tid, mount, string(l.link[:n])); err != nil || !ours {
		return err
	}
	return l.count(dir, name)
}

// mapped looks at what a process has mapped: it may have closed it.
func (l *look) mapped(tid int) error {
	text, err := os.ReadFile(proc(tid, "maps"))
	if err != nil || len(text) == 0 {
		return err
	}
	dir, err := unix.Open(proc(tid, "map_files"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }() // opened for reading
	for line := range strings.Lines(string(text)) {
		if l.left <= 0 {
			return nil
		}
		l.left--
		if err := l.mapping(tid, dir, strings.TrimSuffix(line, "\n")); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

func (l *look) mapping(tid, dir int, line string) error {
	if !strings.HasSuffix(line, removed) {
		return nil
	}
	var from, to, major, minor, inode uint64
	var access, offset string
	if _, err := fmt.Sscanf(line, "%x-%x %s %s %x:%x %d", &from, &to, &access, &offset, &major, &minor,
		&inode); err != nil {
		return err
	}
	if fmt.Sprintf("%d:%d", major, minor) != l.device || l.files[inode] {
		return nil
	}
	name := fmt.Sprintf("%x-%x", from, to)
	var st unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st); err != nil {
		return err
	}
	_, path, _ := strings.Cut(line, "/")
	if ours, err := l.ours(tid, int(st.Mnt_id), "/"+path); err != nil || !ours {
		return err
	}
	return l.count(dir, name)
}

// count adds a file of the directory's file system, if it has no name any more.
func (l *look) count(dir int, name string) error {
	var st unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
		return err
	}
	if st.Nlink > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || l.files[st.Ino] {
		return nil
	}
	l.files[st.Ino] = true
	const unit = 512 // of its blocks, in bytes
	l.bytes += int64(st.Blocks) * unit
	return nil
}

// ours says whether a file on a mount lay in the directory. A process may have made another directory its root, and see
// no other mounts: then another one of the task does, or this one. What is on a mount that nobody sees is nobody's.
func (l *look) ours(tid, mount int, path string) (bool, error) {
	for {
		r, known := l.mounts[mount]
		switch {
		case known && r == around:
			return strings.HasPrefix(path, l.dir+"/"), nil
		case known:
			return r == inside, nil
		}
		for l.read[tid] {
			if len(l.unread) == 0 {
				return false, nil
			}
			tid, l.unread = l.unread[0], l.unread[1:]
		}
		mounts, err := hostfs.MountsOf(tid)
		if err != nil {
			return false, err
		}
		l.read[tid] = true
		l.left -= perTable
		for _, m := range mounts {
			l.mounts[m.ID] = l.reach(m)
		}
	}
}

// perTable is how many descriptors the reading of a mount table counts as.
const perTable = 64

func (l *look) reach(m hostfs.Mount) reach {
	switch {
	case m.Device != l.device:
		return elsewhere
	case below(l.within, m.Root):
		return inside
	case below(m.Root, l.within):
		return around
	}
	return elsewhere
}

// below says whether path is a directory or lies in it.
func below(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
