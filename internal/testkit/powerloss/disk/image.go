package disk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Image is what a power loss left: a tree that is never changed.
type Image struct{ root *left }

// left is a node of an image.
type left struct {
	mode, uid, gid, dev uint32
	target              string
	content             content
	names               map[string]*left
}

// Draw returns what a power loss at this moment leaves. With a source of chance, of what was not synced each page of a
// file and each change of names is there or not; without one, nothing of it is. It is called where watch is.
func (fs *FS) Draw(rng *rand.Rand) *Image {
	view := map[*Node]map[string]*Node{}
	lost := map[*Node]bool{}
	for _, c := range fs.pending {
		if rng == nil || c.touches(lost) || rng.IntN(2) == 0 {
			c.mark(lost) // what follows in these directories cannot be there either
			continue
		}
		for _, e := range c {
			if view[e.dir] == nil {
				view[e.dir] = maps.Clone(e.dir.keptNames)
			}
			set(view[e.dir], e)
		}
	}
	d := drawing{view: view, rng: rng, made: map[*Node]*left{}}
	return &Image{d.node(fs.nodes[Root])}
}

type drawing struct {
	view map[*Node]map[string]*Node
	rng  *rand.Rand
	made map[*Node]*left // files with several names
}

func (d *drawing) node(n *Node) *left {
	if l := d.made[n]; l != nil {
		return l
	}
	l := &left{
		mode:   n.Mode,
		uid:    n.UID,
		gid:    n.GID,
		dev:    n.Dev,
		target: n.Target,
	}
	d.made[n] = l
	if !n.Dir() {
		l.content = d.content(n)
		return l
	}
	names := n.keptNames
	if v := d.view[n]; v != nil {
		names = v
	}
	l.names = map[string]*left{}
	for _, name := range slices.Sorted(maps.Keys(names)) { // in order, for the sake of chance
		l.names[name] = d.node(names[name])
	}
	return l
}

// content draws what is left of a file. It is as long as what is there of it, or at random as long as it was or is.
func (d *drawing) content(n *Node) content {
	out := content{size: n.kept.size, pages: maps.Clone(n.kept.pages)}
	if d.rng == nil {
		return out
	}
	if d.rng.IntN(2) == 0 {
		out.size = n.now.size
	}
	whole := d.rng.IntN(4) == 0 // the disk had been quick
	for _, i := range slices.Sorted(maps.Keys(n.dirty)) {
		if !whole && d.rng.IntN(2) == 0 {
			continue
		}
		p := n.now.pages[i]
		if p == nil {
			delete(out.pages, i)
			continue
		}
		out.pages[i] = p
		out.size = max(out.size, min(n.now.size, (i+1)*PageSize))
	}
	return out
}

// Write makes what is left at a directory that is there and empty.
func (im *Image) Write(dir string) error { return im.root.fill(dir, map[*left]string{}) }

func (l *left) fill(dir string, made map[*left]string) error {
	for _, name := range slices.Sorted(maps.Keys(l.names)) {
		if err := l.names[name].write(filepath.Join(dir, name), made); err != nil {
			return err
		}
	}
	return nil
}

func (l *left) write(path string, made map[*left]string) error {
	if other := made[l]; other != "" {
		return os.Link(other, path)
	}
	made[l] = path
	var err error
	switch l.mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		if err = os.Mkdir(path, 0o700); err == nil {
			err = l.fill(path, made)
		}
	case syscall.S_IFREG:
		err = l.content.write(path)
	case syscall.S_IFLNK:
		if err := os.Symlink(l.target, path); err != nil {
			return err
		}
		return os.Lchown(path, int(l.uid), int(l.gid))
	default:
		err = syscall.Mknod(path, l.mode, int(l.dev))
	}
	if err == nil {
		err = os.Chown(path, int(l.uid), int(l.gid))
	}
	if err == nil {
		err = syscall.Chmod(path, l.mode&0o7777)
	}
	if err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	return nil
}

func (c content) write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for i, p := range c.pages {
		if at := i * PageSize; at < c.size {
			if _, err := f.WriteAt(p[:min(PageSize, c.size-at)], at); err != nil {
				return err
			}
		}
	}
	return f.Truncate(c.size)
}
