package apisocket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// entries lists what is in the socket's directory.
func entries(t *testing.T, path string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

func mustListen(t *testing.T, path string) *Socket {
	t.Helper()
	s, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Given no directory and no umask, when the socket is made, then it is its owner's alone and takes connections; when it
// is closed, twice, nothing is left.
func TestASocketOfItsOwn(t *testing.T) {
	path := socketPath(t)
	old := syscall.Umask(0)
	s, err := Listen(t.Context(), path)
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Lstat(path)
	if err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("its directory is %v, %v", st.Mode(), err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Close(), s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if left := entries(t, path); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// abandon leaves a socket and a lock file as an agent does that is killed.
func abandon(t *testing.T, path string) {
	t.Helper()
	s := mustListen(t, path)
	if err := errors.Join(s.Listener.Close(), s.lock.Close()); err != nil {
		t.Fatal(err)
	}
	if left := entries(t, path); len(left) != 2 {
		t.Fatalf("a killed agent leaves %v", left)
	}
}

// Given the socket of an agent that was killed, when several agents start at once, then one takes its place, and the
// others are refused with its process and the way out.
func TestOneAgentTakesTheSocketOfADeadOne(t *testing.T) {
	path := socketPath(t)
	abandon(t, path)
	var group sync.WaitGroup
	won, refused := make(chan *Socket, 8), make(chan error, 8)
	for range 8 {
		group.Go(func() {
			if s, err := Listen(t.Context(), path); err == nil {
				won <- s
			} else {
				refused <- err
			}
		})
	}
	group.Wait()
	if len(won) != 1 {
		t.Fatalf("%d of 8 have the socket", len(won))
	}
	for range 7 {
		err := <-refused
		for _, want := range []string{path, fmt.Sprintf("process %d", os.Getpid()), "api { socket"} {
			if !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "another agent") {
				t.Errorf("the refusal lacks %q: %v", want, err)
			}
		}
		if !fault.Has(err, fault.Busy) {
			t.Errorf("%v is of kind %s", err, fault.KindOf(err))
		}
	}
	s := <-won
	if _, err := net.Dial("unix", path); err != nil {
		t.Errorf("nobody answers: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Given something at the path that is not the socket of a dead agent, when an agent starts, then it is refused and the
// thing is still there.
func TestWhatIsAtThePathIsNotDisturbed(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(t *testing.T, path string)
		want []string
		kind fault.Kind
	}{
		"a file": {func(t *testing.T, path string) {
			write(t, filepath.Dir(path), "api.sock", "precious")
		}, []string{"no socket", "-rw-------", "not removed"}, fault.Conflict},
		"a directory": {func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, []string{"no socket", "not removed"}, fault.Conflict},
		"a link to a dead socket": {func(t *testing.T, path string) {
			abandon(t, path+"2")
			if err := os.Symlink(path+"2", path); err != nil {
				t.Fatal(err)
			}
		}, []string{"no socket", "not removed"}, fault.Conflict},
		"a living socket": {func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() }) // its file may be gone already
		}, []string{"another process answers"}, fault.Busy},
	} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			c.put(t, path)
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Listen(t.Context(), path)
			if err == nil {
				t.Fatalf("it was replaced: %v", s.Close())
			}
			for _, want := range append(c.want, path, "api { socket") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the refusal lacks %q: %v", want, err)
				}
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("it is gone: %v", err)
			}
			if !fault.Has(err, c.kind) {
				t.Errorf("%v is of kind %s", err, fault.KindOf(err))
			}
			if _, err := os.Lstat(path + ".lock"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the lock file is left: %v", err)
			}
		})
	}
}

// Given a directory in which others could put a socket of their own, when an agent starts, then it is refused.
func TestADirectoryOfOthersIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		mode os.FileMode
		uid  int
		want []string // nil: taken
	}{
		"its own":             {0o755, os.Geteuid(), nil},
		"as /tmp is":          {0o777 | os.ModeSticky, os.Geteuid(), nil},
		"the group writes":    {0o775, os.Geteuid(), []string{"0775", "chmod 755"}},
		"everybody writes":    {0o777, os.Geteuid(), []string{"0777", "chmod 755"}},
		"it is somebody's":    {0o755, 65534, []string{"user 65534"}},
		"somebody's, private": {0o700, 65534, []string{"user 65534"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			dir := filepath.Dir(path)
			if c.uid != os.Geteuid() && os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, c.mode), os.Chown(dir, c.uid, -1)); err != nil {
				t.Fatal(err)
			}
			s, err := Listen(t.Context(), path)
			if err == nil {
				if closing := s.Close(); closing != nil || c.want != nil {
					t.Errorf("taken; closed with %v", closing)
				}
				return
			}
			for _, want := range append(c.want, dir, "api { socket") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the refusal lacks %q: %v", want, err)
				}
			}
			if c.want == nil || !fault.Has(err, fault.Denied) || len(entries(t, path)) > 0 {
				t.Errorf("kind %s, %v: %v", fault.KindOf(err), entries(t, path), err)
			}
		})
	}
}

// Given a socket that was removed and made anew by somebody else, when the agent ends, then the other's stays.
func TestTheSocketOfASuccessorStays(t *testing.T) {
	path := socketPath(t)
	s := mustListen(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the other's socket: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	gone := mustListen(t, path)
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Errorf("without its directory: %v", err)
	}
}

// deaf makes a socket that lives and answers nobody: as many wait there as it takes.
func deaf(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) }) // nothing was written
	at := &unix.SockaddrUnix{Name: path}
	if err := errors.Join(unix.Bind(fd, at), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 64 {
		waiting, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(waiting) })
		switch err := unix.Connect(waiting, at); {
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			t.Fatal(err)
		}
	}
	t.Fatal("the socket takes everybody")
}

// Given a socket whose owner lives and has no room for another connection, when an agent starts, then it is refused as
// busy and the socket stays: only one that nobody listens on is replaced.
func TestASocketThatDoesNotAnswerIsNotReplaced(t *testing.T) {
	path := socketPath(t)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	deaf(t, path)
	before, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(t.Context(), path)
	if err == nil {
		t.Fatalf("it was replaced: %v", s.Close())
	}
	if !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), "who is there") {
		t.Errorf("%v is of kind %s", err, fault.KindOf(err))
	}
	if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("it is gone: %v", err)
	}
}

// Given a lock file that its owner removed, or that another agent made anew, after it was opened, then its lock is
// none: the one at the path is another's.
func TestALockOnAFileThatIsGoneIsNone(t *testing.T) {
	for name, next := range map[string]func(path string) error{
		"removed":    func(string) error { return nil },
		"made anew":  func(path string) error { return os.WriteFile(path, []byte("7\n"), 0o600) },
		"not at all": nil,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "api.sock.lock")
			f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			if next == nil {
				if err := takeLock(f); err != nil {
					t.Errorf("a lock file that is there: %v", err)
				}
				return
			}
			if err := errors.Join(os.Remove(path), next(path)); err != nil {
				t.Fatal(err)
			}
			if err := takeLock(f); !errors.Is(err, errStale) {
				t.Errorf("the lock is taken: %v", err)
			}
		})
	}
}

// socketPath is short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "run", "api.sock")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
