// Package taskapi owns the unix sockets by which tasks reach the API: one in the secrets directory of each task, from
// before its first start until it will not start again, and anew after a restart of the agent. What is asked there the
// agent's HTTP surface answers. Package client composes it; taskhooks open and close.
package taskapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
)

// Name of the socket in a task's secrets directory.
const Name = "api.sock"

// Serve answers on a listener until ctx ends or it is closed.
type Serve func(ctx context.Context, l net.Listener) error

// Sockets are those of the node's tasks. Its methods may be called from every goroutine; what is opened before Run
// is answered from then on.
type Sockets struct {
	name  string
	serve Serve
	log   *slog.Logger

	mu    sync.Mutex
	open  map[string]*socket          // by the directory that it lies in
	begin func(dir string, k *socket) // answers on one that is not answered yet; nil: Run does not run
	over  bool                        // nothing is opened any more
}

// socket is one that listens.
type socket struct {
	net.Listener
	at    net.UnixAddr  // where it lies; the listener's own address is a descriptor that is closed
	ended chan struct{} // closed when it is answered no more, and no connection is left; nil: it is not answered yet
}

// Addr implements net.Listener: by it the API tells tasks apart.
func (k *socket) Addr() net.Addr { return &k.at }

// New returns sockets; nil serve: there is no API to reach, and Open does nothing.
func New(serve Serve, log *slog.Logger) *Sockets { return Named(Name, serve, log) }

// Named returns sockets that lead elsewhere than to the API, by another name.
func Named(name string, serve Serve, log *slog.Logger) *Sockets {
	return &Sockets{name: name, serve: serve, log: log, open: map[string]*socket{}}
}

// Run answers on what is opened until ctx ends, and then closes all of it. The files stay, for the tasks to find the
// agent's next run there.
func (s *Sockets) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	s.mu.Lock()
	s.begin = func(dir string, k *socket) { s.answer(gctx, g, dir, k) }
	for dir, k := range s.open {
		s.begin(dir, k)
	}
	s.mu.Unlock()
	g.Go("end", func() error {
		<-gctx.Done()
		return nil
	})
	err := g.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin = nil
	var left []error
	for _, k := range s.open {
		left = append(left, closed(k.Close()))
	}
	clear(s.open)
	return errors.Join(append(left, err)...)
}

// answer answers on a socket until ctx ends. The caller holds the lock.
func (s *Sockets) answer(ctx context.Context, g *lifecycle.Group, dir string, k *socket) {
	k.ended = make(chan struct{})
	g.Go("task's API", lifecycle.Isolated("task's API", func() error {
		defer close(k.ended)
		return closed(s.serve(ctx, k))
	}, func(err error) {
		s.log.Error("a task's way to the API has ended; it comes back with the task's next start", logkey.Path, dir,
			logkey.Error, err)
		_ = s.Close(dir) // it ended: what is left of it is its file
	}))
}

// Open listens in a task's directory, unless it does already, and tells whether it does.
func (s *Sockets) Open(dir string) (there bool, err error) {
	if s.serve == nil {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.open[dir] != nil {
		return !s.over, nil
	}
	l, err := listen(dir, s.name)
	if err != nil {
		return false, fault.Note(err, "listen", "for the task in "+dir)
	}
	k := &socket{Listener: l, at: net.UnixAddr{Name: filepath.Join(dir, s.name), Net: "unix"}}
	s.open[dir] = k
	if s.begin != nil {
		s.begin(dir, k)
	}
	return true, nil
}

// End closes all of them, and lets none be opened any more: for an agent that takes what they lie in away.
func (s *Sockets) End() error {
	s.mu.Lock()
	s.over = true
	dirs := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, s.Close(dir))
	}
	return errors.Join(errs...)
}

// Close ends a socket with its connections, each of which would keep the file system busy that it lies in, and removes
// its file.
func (s *Sockets) Close(dir string) error {
	s.mu.Lock()
	k := s.open[dir]
	delete(s.open, dir)
	s.mu.Unlock()
	var err error
	if k != nil {
		err = closed(k.Close())
		if k.ended != nil {
			<-k.ended
		}
	}
	fd, oerr := openDir(dir)
	if errors.Is(oerr, fs.ErrNotExist) {
		return err
	}
	if oerr != nil {
		return errors.Join(err, fault.Wrap(oerr, fault.Internal, "open", dir))
	}
	defer func() { _ = unix.Close(fd) }() // opened for paths only
	return errors.Join(err, remove(fd, s.name))
}

// closed passes over the end of what was closed.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func openDir(dir string) (int, error) {
	return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// remove takes away what lies in the socket's place: it is the task's directory.
func remove(fd int, name string) error {
	if err := unix.Unlinkat(fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fault.Wrap(err, fault.Internal, "remove", name)
	}
	return nil
}

// listen makes the socket. The directory is the task's, so that it is reached by a descriptor and never by a path; that
// also makes its length, which the kernel bounds at 107 bytes, no matter.
func listen(dir, name string) (net.Listener, error) {
	fd, err := openDir(dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open", dir)
	}
	defer func() { _ = unix.Close(fd) }() // opened for paths only
	if err := remove(fd, name); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", fd, name), Net: "unix"})
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", name)
	}
	l.SetUnlinkOnClose(false) // its path is good no longer
	if err := admit(fd, name); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// admit lets whoever gets into the directory connect: the task's user, and whom the task lets in. Without an identity
// it is of no use to anybody.
func admit(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "open", name)
	}
	defer func() { _ = unix.Close(fd) }() // opened for its mode only
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault.Wrap(err, fault.Internal, "look at", name)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fault.New(fault.Conflict, "make", name, "something else was put into its place meanwhile")
	}
	return fault.Wrap(unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o666), fault.Internal, "set mode of", name)
}
