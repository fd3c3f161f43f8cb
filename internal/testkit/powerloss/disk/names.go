package disk

import "syscall"

// apply makes a change of names, which survives only once a directory of it was synced.
func (fs *FS) apply(op string, c change) {
	fs.watch(op)
	for _, e := range c {
		set(e.dir.names, e)
		e.dir.touch()
	}
	fs.pending = append(fs.pending, c)
}

// Make adds a node with a name.
func (fs *FS) Make(dir *Node, name string, mode, uid, gid uint32) (*Node, syscall.Errno) {
	switch {
	case dir.Links == 0:
		return nil, syscall.ENOENT
	case dir.names[name] != nil:
		return nil, syscall.EEXIST
	}
	n := fs.add(mode, uid, gid)
	if n.Dir() {
		dir.Links++
	} else {
		n.Links = 1
	}
	n.parent = dir
	fs.apply("making of "+fs.path(dir)+"/"+name, change{{dir, name, n}})
	return n, 0
}

// Link gives a node one more name.
func (fs *FS) Link(n, dir *Node, name string) syscall.Errno {
	if dir.names[name] != nil {
		return syscall.EEXIST
	}
	n.Links++
	fs.apply("link of "+fs.path(n)+" to "+name, change{{dir, name, n}})
	return 0
}

// Remove takes a name away; of a directory only when it is empty.
func (fs *FS) Remove(dir *Node, name string, directory bool) syscall.Errno {
	n := dir.names[name]
	switch {
	case n == nil:
		return syscall.ENOENT
	case directory && !n.Dir():
		return syscall.ENOTDIR
	case !directory && n.Dir():
		return syscall.EISDIR
	case len(n.names) > 0:
		return syscall.ENOTEMPTY
	}
	fs.apply("removal of "+fs.path(n), change{{dir, name, nil}})
	fs.unlink(dir, n)
	return 0
}

func (fs *FS) unlink(dir, n *Node) {
	if n.Dir() {
		n.Links = 0
		dir.Links--
		return
	}
	n.Links--
}

// Flags of renameat2.
const (
	noReplace = 1
	exchange  = 2
)

// exchange has two names change places, at once.
func (fs *FS) exchange(from *Node, name string, to *Node, newName string) {
	n, there := from.names[name], to.names[newName]
	fs.apply("exchange of "+fs.path(n)+" and "+newName, change{{from, name, there}, {to, newName, n}})
	for _, moved := range []struct {
		n        *Node
		from, to *Node
	}{{n, from, to}, {there, to, from}} {
		if moved.n.Dir() {
			moved.from.Links--
			moved.to.Links++
		}
		moved.n.parent = moved.to
	}
}

// Rename moves a name.
func (fs *FS) Rename(from *Node, name string, to *Node, newName string, flags uint32) syscall.Errno {
	n, there := from.names[name], to.names[newName]
	switch {
	case n == nil:
		return syscall.ENOENT
	case flags&noReplace != 0 && there != nil:
		return syscall.EEXIST
	case flags&exchange != 0 && there == nil:
		return syscall.ENOENT
	case there == n:
		return 0
	case flags&exchange != 0:
		fs.exchange(from, name, to, newName)
		return 0
	case there != nil && there.Dir() && !n.Dir():
		return syscall.EISDIR
	case there != nil && n.Dir() && !there.Dir():
		return syscall.ENOTDIR
	case there != nil && len(there.names) > 0:
		return syscall.ENOTEMPTY
	}
	op := "rename of " + fs.path(n) + " to " + newName
	fs.apply(op, change{{from, name, nil}, {to, newName, n}})
	if there != nil {
		fs.unlink(to, there)
	}
	if n.Dir() {
		from.Links--
		to.Links++
	}
	n.parent = to
	return 0
}
