package hostfs

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
)

// PollPeriod is how often a directory is looked at that the kernel does not watch.
const PollPeriod = time.Second

// changes are what a directory is watched for.
const changes = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_TO |
	unix.IN_MOVED_FROM | unix.IN_DELETE_SELF | unix.IN_ONLYDIR

// Directories tells when something in one changes, to all who ask: by one inotify instance, because the kernel
// gives a user 128 of them as a rule. A directory that the kernel does not watch, for want of an instance or of a
// watch, or because it is not there yet, counts as changed every PollPeriod.
type Directories struct {
	log  *slog.Logger
	open func() (int, error)

	mu    sync.Mutex
	fd    int // of the instance; -1: there is none
	poked int // an event descriptor that ends a wait; -1: nobody waits
	short bool
	dirs  map[string]*watchedDir
	ids   map[int32]*watchedDir
}

// watchedDir is a directory that somebody asks about.
type watchedDir struct {
	path  string
	id    int32 // of its watch; -1: it has none
	asked map[*Watch]bool
}

// Watch is one asking about one directory.
type Watch struct {
	w       *Directories
	dir     *watchedDir
	changed chan struct{}
}

// NewDirectories returns what tells nothing before Run; log may be nil.
func NewDirectories(log *slog.Logger) *Directories {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Directories{
		log:   log,
		open:  func() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK) },
		fd:    -1,
		poked: -1,
		dirs:  map[string]*watchedDir{},
		ids:   map[int32]*watchedDir{},
	}
}

// Watch asks about a directory, until it is closed.
func (w *Directories) Watch(dir string) *Watch { return w.WatchInto(dir, make(chan struct{}, 1)) }

// WatchInto is Watch for who asks about several directories by one channel, which has room for one.
func (w *Directories) WatchInto(dir string, changed chan struct{}) *Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.dirs[dir]
	if d == nil {
		d = &watchedDir{path: dir, id: -1, asked: map[*Watch]bool{}}
		w.dirs[dir] = d
		w.cover(d)
	}
	one := &Watch{w: w, dir: d, changed: changed}
	d.asked[one] = true
	return one
}

// Changed receives once for every burst of changes; who receives looks at everything.
func (o *Watch) Changed() <-chan struct{} { return o.changed }

// Close ends the asking.
func (o *Watch) Close() {
	w := o.w
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(o.dir.asked, o)
	if len(o.dir.asked) > 0 || w.dirs[o.dir.path] != o.dir {
		return
	}
	delete(w.dirs, o.dir.path)
	if o.dir.id >= 0 {
		delete(w.ids, o.dir.id)
		_, _ = unix.InotifyRmWatch(w.fd, uint32(o.dir.id)) // the directory may be gone, and the watch with it
	}
}

// cover asks the kernel to watch a directory. The lock is held.
func (w *Directories) cover(d *watchedDir) {
	if w.fd >= 0 {
		if id, err := unix.InotifyAddWatch(w.fd, d.path, changes); err == nil {
			if other := w.ids[int32(id)]; other == nil { // another path may lead to the same directory: that one has it
				d.id = int32(id)
				w.ids[d.id] = d
				return
			}
		}
	}
	if w.poked >= 0 {
		_, _ = unix.Write(w.poked, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an event descriptor takes one
	}
}

func (d *watchedDir) tell() {
	for o := range d.asked {
		select {
		case o.changed <- struct{}{}:
		default: // it looks again anyway
		}
	}
}

// Run tells of changes until ctx ends.
func (w *Directories) Run(ctx context.Context) error {
	stop, release, err := StopFD(ctx)
	if err != nil {
		return err
	}
	defer release()
	poked, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "make", "an event descriptor")
	}
	w.mu.Lock()
	w.poked = poked
	w.mu.Unlock()
	defer w.shut()
	buf := make([]byte, 64<<10)
	for ctx.Err() == nil {
		fd, timeout := w.uncovered()
		fds := []unix.PollFd{{Fd: int32(stop), Events: unix.POLLIN}, {Fd: int32(poked), Events: unix.POLLIN},
			{Fd: int32(fd), Events: unix.POLLIN}} // one that is -1 is left out
		if _, err := unix.Poll(fds, timeout); err != nil && !errors.Is(err, unix.EINTR) {
			return fault.Wrap(err, fault.Internal, "watch", "directories")
		}
		if fds[1].Revents != 0 {
			_, _ = unix.Read(poked, buf[:8]) // it only ends the wait
		}
		if n, _ := unix.Read(fd, buf); n > 0 {
			w.events(buf[:n])
		}
	}
	return nil
}

// uncovered asks once more for what the kernel does not watch, and tells of it. timeout is in milliseconds.
func (w *Directories) uncovered() (fd, timeout int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd < 0 {
		fd, err := w.open()
		switch {
		case err == nil:
			w.fd = fd
			w.short = false
		case !w.short:
			w.short = true
			w.log.Warn("there is no inotify instance left: directories are looked at every second; raise "+
				"fs.inotify.max_user_instances", logkey.Error, err)
		}
	}
	timeout = -1
	poked := w.poked
	w.poked = -1 // what is covered here needs no poke
	for _, d := range w.dirs {
		if d.id >= 0 {
			continue
		}
		w.cover(d)
		d.tell()
		if d.id < 0 {
			timeout = int(PollPeriod.Milliseconds())
		}
	}
	w.poked = poked
	return w.fd, timeout
}

func (w *Directories) events(buf []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(buf) >= unix.SizeofInotifyEvent {
		id, mask := int32(binary.NativeEndian.Uint32(buf)), binary.NativeEndian.Uint32(buf[4:])
		buf = buf[min(len(buf), unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(buf[12:]))):]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			for _, d := range w.dirs {
				d.tell()
			}
		}
		d := w.ids[id]
		if d == nil {
			continue
		}
		if mask&unix.IN_IGNORED != 0 { // the directory is gone; another one may come in its place
			delete(w.ids, id)
			d.id = -1
		}
		d.tell()
	}
}

// shut gives the descriptors back.
func (w *Directories) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = unix.Close(w.poked)
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
	}
	w.fd, w.poked = -1, -1
	clear(w.ids)
	for _, d := range w.dirs {
		d.id = -1
	}
}
