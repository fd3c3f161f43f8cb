package powerloss

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"berth/internal/testkit/powerloss/disk"
)

// server lets the kernel use a disk. Nothing but the kernel changes it, so what the kernel remembers stays true.
type server struct {
	fuse.RawFileSystem
	fs    *disk.FS
	delay func() time.Duration // of a sync

	listings map[uint64][]*disk.Node // of open directories, with their names; guarded by the disk's lock
	named    map[uint64][]string
	opened   uint64
}

const remembered = time.Hour

func newServer(fs *disk.FS, delay func() time.Duration) *server {
	return &server{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		fs:            fs,
		delay:         delay,
		listings:      map[uint64][]*disk.Node{},
		named:         map[uint64][]string{},
	}
}

func attr(n *disk.Node, out *fuse.Attr) {
	out.Ino = n.ID
	out.Mode = n.Mode
	out.Nlink = n.Links
	out.Uid = n.UID
	out.Gid = n.GID
	out.Rdev = n.Dev
	out.Size = uint64(n.Size())
	if n.Target != "" {
		out.Size = uint64(len(n.Target))
	}
	out.Blksize = disk.PageSize
	out.Blocks = uint64(n.Blocks())
	out.SetTimes(&n.Accessed, &n.Modified, &n.Changed)
}

func entry(n *disk.Node, out *fuse.EntryOut) {
	out.NodeId = n.ID
	out.SetEntryTimeout(remembered)
	out.SetAttrTimeout(remembered)
	attr(n, &out.Attr)
}

func (s *server) with(id uint64, fn func(*disk.Node) syscall.Errno) fuse.Status {
	return fuse.Status(s.fs.With(id, fn))
}

func (s *server) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return s.with(in.NodeId, func(dir *disk.Node) syscall.Errno {
		n := dir.Lookup(name)
		if n == nil {
			return syscall.ENOENT
		}
		entry(n, out)
		return 0
	})
}

func (s *server) Forget(id, _ uint64) { s.fs.Forget(id) }

func (s *server) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return s.with(in.NodeId, func(n *disk.Node) syscall.Errno {
		out.SetTimeout(remembered)
		attr(n, &out.Attr)
		return 0
	})
}

// SetAttr changes what stat shows. That survives at once: no store depends on it.
func (s *server) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return s.with(in.NodeId, func(n *disk.Node) syscall.Errno {
		if mode, ok := in.GetMode(); ok {
			n.Mode = n.Mode&syscall.S_IFMT | mode&0o7777
		}
		if uid, ok := in.GetUID(); ok {
			n.UID = uid
		}
		if gid, ok := in.GetGID(); ok {
			n.GID = gid
		}
		if at, ok := in.GetATime(); ok {
			n.Accessed = at
		}
		if size, ok := in.GetSize(); ok {
			s.fs.Resize(n, int64(size))
		}
		if at, ok := in.GetMTime(); ok {
			n.Modified = at
		}
		n.Changed = time.Now()
		out.SetTimeout(remembered)
		attr(n, &out.Attr)
		return 0
	})
}

// make adds a node, and hands it to then before anybody sees it.
func (s *server) make(in *fuse.InHeader, name string, mode uint32, out *fuse.EntryOut,
	then func(*disk.Node)) fuse.Status {
	return s.with(in.NodeId, func(dir *disk.Node) syscall.Errno {
		n, errno := s.fs.Make(dir, name, mode, in.Uid, in.Gid)
		if errno != 0 {
			return errno
		}
		then(n)
		entry(n, out)
		return 0
	})
}

func nothing(*disk.Node) {}

func (s *server) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return s.make(&in.InHeader, name, in.Mode, out, func(n *disk.Node) { n.Dev = in.Rdev })
}

func (s *server) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return s.make(&in.InHeader, name, in.Mode&0o7777|syscall.S_IFDIR, out, nothing)
}

func (s *server) Symlink(_ <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return s.make(in, name, syscall.S_IFLNK|0o777, out, func(n *disk.Node) { n.Target = target })
}

func (s *server) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return s.make(&in.InHeader, name, in.Mode&0o7777|syscall.S_IFREG, &out.EntryOut, nothing)
}

func (s *server) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return s.pair(in.Oldnodeid, in.NodeId, func(n, dir *disk.Node) syscall.Errno {
		if errno := s.fs.Link(n, dir, name); errno != 0 {
			return errno
		}
		entry(n, out)
		return 0
	})
}

// pair runs fn on two nodes.
func (s *server) pair(first, second uint64, fn func(a, b *disk.Node) syscall.Errno) fuse.Status {
	return s.with(first, func(a *disk.Node) syscall.Errno {
		b := s.fs.Node(second)
		if b == nil {
			return syscall.ESTALE
		}
		return fn(a, b)
	})
}

func (s *server) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return s.with(in.NodeId, func(dir *disk.Node) syscall.Errno { return s.fs.Remove(dir, name, false) })
}

func (s *server) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return s.with(in.NodeId, func(dir *disk.Node) syscall.Errno { return s.fs.Remove(dir, name, true) })
}

func (s *server) Rename(_ <-chan struct{}, in *fuse.RenameIn, name, newName string) fuse.Status {
	return s.pair(in.NodeId, in.Newdir, func(from, to *disk.Node) syscall.Errno {
		return s.fs.Rename(from, name, to, newName, in.Flags)
	})
}

func (s *server) Readlink(_ <-chan struct{}, in *fuse.InHeader) (out []byte, status fuse.Status) {
	status = s.with(in.NodeId, func(n *disk.Node) syscall.Errno {
		out = []byte(n.Target)
		return 0
	})
	return out, status
}

func (s *server) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return s.with(in.NodeId, func(n *disk.Node) syscall.Errno {
		if in.Flags&syscall.O_TRUNC != 0 {
			s.fs.Resize(n, 0)
		}
		return 0
	})
}

func (s *server) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	n := 0
	status := s.with(in.NodeId, func(f *disk.Node) syscall.Errno {
		n = f.Read(buf, int64(in.Offset))
		return 0
	})
	return fuse.ReadResultData(buf[:n]), status
}

func (s *server) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return uint32(len(data)), s.with(in.NodeId, func(n *disk.Node) syscall.Errno {
		s.fs.Write(n, data, int64(in.Offset))
		return 0
	})
}

// Flush is called at each close: it promises nothing.
func (s *server) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

func (s *server) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	time.Sleep(s.delay())
	return s.with(in.NodeId, func(n *disk.Node) syscall.Errno {
		s.fs.Sync(n)
		return 0
	})
}

func (s *server) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	time.Sleep(s.delay())
	return s.with(in.NodeId, func(n *disk.Node) syscall.Errno {
		s.fs.SyncDir(n)
		return 0
	})
}

// Modes of fallocate.
const (
	keepSize  = 1
	punchHole = 2
)

func (s *server) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	if in.Mode&^(keepSize|punchHole) != 0 {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	return s.with(in.NodeId, func(n *disk.Node) syscall.Errno {
		switch end := int64(in.Offset + in.Length); {
		case in.Mode&punchHole != 0:
			s.fs.Zero(n, int64(in.Offset), min(int64(in.Length), max(0, n.Size()-int64(in.Offset))))
		case in.Mode&keepSize == 0 && end > n.Size():
			s.fs.Resize(n, end)
		}
		return 0
	})
}

func (s *server) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return s.with(in.NodeId, func(dir *disk.Node) syscall.Errno {
		s.opened++
		out.Fh = s.opened
		for _, name := range dir.Names() {
			s.listings[out.Fh] = append(s.listings[out.Fh], dir.Lookup(name))
			s.named[out.Fh] = append(s.named[out.Fh], name)
		}
		return 0
	})
}

func (s *server) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	s.fs.Do(func() {
		all := s.listings[in.Fh]
		for i := int(in.Offset); i < len(all); i++ {
			e := fuse.DirEntry{Name: s.named[in.Fh][i], Mode: all[i].Mode, Ino: all[i].ID, Off: uint64(i + 1)}
			if !out.AddDirEntry(e) {
				return
			}
		}
	})
	return fuse.OK
}

func (s *server) ReleaseDir(in *fuse.ReleaseIn) {
	s.fs.Do(func() {
		delete(s.listings, in.Fh)
		delete(s.named, in.Fh)
	})
}

func (s *server) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	const blocks = 8 << 30 / disk.PageSize
	out.Bsize = disk.PageSize
	out.Frsize = disk.PageSize
	out.Blocks = blocks
	out.Bfree = blocks
	out.Bavail = blocks
	out.Files = 1 << 20
	out.Ffree = 1 << 20
	out.NameLen = 255
	return fuse.OK
}
