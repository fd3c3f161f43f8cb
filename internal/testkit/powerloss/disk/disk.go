// Package disk owns a file system in memory that knows what of it a power loss would leave: what was synced, and of the
// rest any part. It is as strict as POSIX lets a file system be. The content of a file survives its fsync, a name
// survives the fsync of the directory that it is in, and nothing else is promised; a rename is made whole or not at
// all, and the changes of one directory survive in their order. Only package powerloss imports it.
package disk

import (
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"
)

// PageSize is what of a file is written whole or not at all.
const PageSize = 4096

// page is never changed: a write makes another one, so that images share them.
type page [PageSize]byte

// content is what a file holds; pages that are missing are holes.
type content struct {
	size  int64
	pages map[int64]*page
}

// Node is a file, a directory, a link or a socket.
type Node struct {
	ID       uint64
	Mode     uint32 // with the kind, as stat has it
	UID, GID uint32
	Dev      uint32
	Target   string // of a symbolic link
	Links    uint32
	Accessed time.Time
	Modified time.Time
	Changed  time.Time

	now   content
	kept  content            // what the last fsync wrote
	dirty map[int64]struct{} // pages that differ from it

	names     map[string]*Node
	keptNames map[string]*Node
	parent    *Node // of a directory
}

// Dir says whether the node is a directory.
func (n *Node) Dir() bool { return n.Mode&syscall.S_IFMT == syscall.S_IFDIR }

// Size of a file in bytes.
func (n *Node) Size() int64 { return n.now.size }

// Blocks of 512 bytes that a file takes.
func (n *Node) Blocks() int { return len(n.now.pages) * PageSize / 512 }

// edit is one name of one directory that came, went, or means something else.
type edit struct {
	dir  *Node
	name string
	to   *Node // nil: it is gone
}

// change is what survives as a whole or not at all.
type change []edit

func (c change) touches(dirs map[*Node]bool) bool {
	return slices.ContainsFunc(c, func(e edit) bool { return dirs[e.dir] })
}

func (c change) mark(dirs map[*Node]bool) {
	for _, e := range c {
		dirs[e.dir] = true
	}
}

// FS is the file system. Its methods may be called from every goroutine.
type FS struct {
	mu      sync.Mutex
	nodes   map[uint64]*Node
	last    uint64
	pending []change // of names, since the syncs of their directories
	watch   func(op string)
}

// Root is the number of the root directory.
const Root = 1

// New returns an empty file system. Before each operation that changes or syncs something, watch is called with a
// sentence about it; it may take an image, by Draw.
func New(watch func(op string)) *FS {
	fs := &FS{nodes: map[uint64]*Node{}, watch: watch}
	fs.add(syscall.S_IFDIR|0o755, 0, 0)
	return fs
}

func (fs *FS) add(mode, uid, gid uint32) *Node {
	fs.last++
	now := time.Now()
	n := &Node{
		ID:       fs.last,
		Mode:     mode,
		UID:      uid,
		GID:      gid,
		Accessed: now,
		Modified: now,
		Changed:  now,
		dirty:    map[int64]struct{}{},
	}
	n.now.pages = map[int64]*page{}
	n.kept.pages = map[int64]*page{}
	if n.Dir() {
		n.Links = 2
		n.names = map[string]*Node{}
		n.keptNames = map[string]*Node{}
	}
	fs.nodes[n.ID] = n
	return n
}

// With runs fn on a node while nobody else is at work.
func (fs *FS) With(id uint64, fn func(*Node) syscall.Errno) syscall.Errno {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.nodes[id]
	if n == nil {
		return syscall.ESTALE
	}
	return fn(n)
}

// Do runs fn while nobody else is at work.
func (fs *FS) Do(fn func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fn()
}

// Forget drops a node that has no name any more and that nobody holds.
func (fs *FS) Forget(id uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if n := fs.nodes[id]; n != nil && n.Links == 0 {
		delete(fs.nodes, id)
	}
}

// Lookup finds a name in a directory.
func (n *Node) Lookup(name string) *Node { return n.names[name] }

// Names are those of a directory, in order.
func (n *Node) Names() []string { return slices.Sorted(maps.Keys(n.names)) }

// Read reads from a file and returns how much there was.
func (n *Node) Read(buf []byte, off int64) int {
	if off >= n.now.size {
		return 0
	}
	buf = buf[:min(int64(len(buf)), n.now.size-off)]
	for done := 0; done < len(buf); {
		at := off + int64(done)
		from := int(at % PageSize)
		part := min(PageSize-from, len(buf)-done)
		if p := n.now.pages[at/PageSize]; p != nil {
			copy(buf[done:done+part], p[from:])
		} else {
			clear(buf[done : done+part])
		}
		done += part
	}
	return len(buf)
}

// Write writes to a file.
func (fs *FS) Write(n *Node, data []byte, off int64) {
	fs.watch("write of " + fs.path(n))
	for done := 0; done < len(data); {
		at := off + int64(done)
		from := int(at % PageSize)
		p := &page{}
		if old := n.now.pages[at/PageSize]; old != nil {
			*p = *old
		}
		done += copy(p[from:], data[done:])
		n.now.pages[at/PageSize] = p
		n.dirty[at/PageSize] = struct{}{}
	}
	n.now.size = max(n.now.size, off+int64(len(data)))
	n.touch()
}

// Resize cuts a file off or makes it longer by a hole.
func (fs *FS) Resize(n *Node, size int64) {
	if size == n.now.size {
		return
	}
	fs.watch("truncation of " + fs.path(n))
	fs.Zero(n, size, max(0, n.now.size-size))
	n.now.size = size
	n.touch()
}

// Zero makes a part of a file a hole.
func (fs *FS) Zero(n *Node, off, length int64) {
	for at := off; at < off+length; {
		i, from := at/PageSize, at%PageSize
		part := min(PageSize-from, off+length-at)
		if old := n.now.pages[i]; old != nil {
			p := *old
			clear(p[from : from+part])
			n.now.pages[i] = &p
			if part == PageSize {
				delete(n.now.pages, i)
			}
			n.dirty[i] = struct{}{}
		}
		at += part
	}
}

func (n *Node) touch() {
	n.Modified = time.Now()
	n.Changed = n.Modified
}

// Sync makes the content of a file survive.
func (fs *FS) Sync(n *Node) {
	fs.watch("fsync of " + fs.path(n))
	for i := range n.dirty {
		if p := n.now.pages[i]; p != nil {
			n.kept.pages[i] = p
		} else {
			delete(n.kept.pages, i)
		}
	}
	clear(n.dirty)
	n.kept.size = n.now.size
}

// SyncDir makes the names of a directory survive, and what of other directories was changed with or before them.
func (fs *FS) SyncDir(n *Node) {
	fs.watch("fsync of directory " + fs.path(n))
	dirs := map[*Node]bool{n: true}
	keep := make([]bool, len(fs.pending))
	for i, c := range slices.Backward(fs.pending) {
		if keep[i] = c.touches(dirs); keep[i] {
			c.mark(dirs)
		}
	}
	var left []change
	for i, c := range fs.pending {
		if !keep[i] {
			left = append(left, c)
			continue
		}
		for _, e := range c {
			set(e.dir.keptNames, e)
		}
	}
	fs.pending = left
}

func set(names map[string]*Node, e edit) {
	if e.to == nil {
		delete(names, e.name)
		return
	}
	names[e.name] = e.to
}

// path is where a node is, for sentences.
func (fs *FS) path(n *Node) string {
	if n.ID == Root {
		return "/"
	}
	dir := n.parent
	if dir == nil {
		return "a file without a name"
	}
	for name, other := range dir.names {
		if other == n {
			if dir.ID == Root {
				return "/" + name
			}
			return fs.path(dir) + "/" + name
		}
	}
	return "a file without a name"
}

// Node returns a node by its number, within With.
func (fs *FS) Node(id uint64) *Node { return fs.nodes[id] }
