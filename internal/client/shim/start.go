package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/procs"
)

// ensure returns a conversation with the alloc's shim, which it starts when there is none; fresh says that it did.
func (l *Launcher) ensure(ctx context.Context, alloc string) (c *conn, fresh bool, err error) {
	unlock, err := l.lock(ctx, alloc)
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	c, err = l.reach(ctx, alloc)
	if err == nil {
		return c, false, nil
	}
	if !errors.Is(err, errGone) {
		return nil, false, err
	}
	// What a dead shim left must be gone before its successor uses the same cgroups.
	if err := l.sweep(ctx, alloc); err != nil {
		return nil, false, err
	}
	c, err = l.start(ctx, alloc)
	return c, true, err
}

// start starts the alloc's shim. The socket listens before the shim runs: a connection waits for it, nobody polls.
func (l *Launcher) start(ctx context.Context, alloc string) (*conn, error) {
	subject := "the shim of alloc " + ids.Short(alloc)
	program, err := l.cfg.Program()
	if err != nil {
		return nil, err
	}
	defer program.Close()
	listener, err := listen(l.socket(alloc))
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open the socket of", subject)
	}
	defer listener.Close()
	complaints, proc, err := l.spawn(ctx, alloc, program, listener)
	if err != nil {
		return nil, errors.Join(fault.Wrap(err, fault.Internal, "start", subject), l.sweep(ctx, alloc))
	}
	defer complaints.Close()
	l.mu.Lock()
	l.children[stem(alloc)] = proc
	l.mu.Unlock()
	if err := listener.Close(); err != nil { // with ours open, a shim that dies at once would look alive
		return nil, fault.Wrap(err, fault.Internal, "start", subject)
	}
	c, err := dial(ctx, l.socket(alloc))
	if err == nil {
		return c, nil
	}
	err = fault.Note(err, "start", subject)
	_ = proc.Kill() // fails when it is dead already
	if text := readComplaint(complaints); text != "" {
		err = fault.Wrap(fmt.Errorf("%s: %w", text, err), fault.Internal, "start", subject)
	}
	l.reap(alloc)
	return nil, errors.Join(err, l.sweep(context.WithoutCancel(ctx), alloc))
}

func listen(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := unix.Listen(fd, 128); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// spawn starts the program in a kernel session and a cgroup of its own, with nothing of the agent's but the listener.
func (l *Launcher) spawn(
	ctx context.Context, alloc string, program, listener *os.File,
) (complaints *os.File, proc *os.Process, err error) {
	leaf, err := l.tree.ShimLeaf(l.cfg.Slice, alloc)
	if err != nil {
		return nil, nil, err
	}
	group, err := os.Open(leaf)
	if err != nil {
		return nil, nil, err
	}
	defer group.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	complaints, stderr, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer stderr.Close()
	// By our descriptors: those of the child are being moved when it looks the name up (helperbin.Path).
	proc, err = l.fork(ctx, alloc, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), program.Fd()),
		[]string{"berth-shim", "shim", alloc, l.cfg.Slice, l.socket(alloc)},
		&os.ProcAttr{
			Dir: "/",
			Env: []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0,updatemaxprocs=0", "GOTRACEBACK=single",
				l.tree.Setting()},
			Files: []*os.File{null, null, stderr, listener},
			Sys:   &unix.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd())},
		})
	if err != nil {
		return nil, nil, errors.Join(err, complaints.Close())
	}
	return complaints, proc, nil
}

// fork starts a program from a thread that visits the shim's v1 groups. A thread that does not find back is thrown
// away.
func (l *Launcher) fork(
	ctx context.Context, alloc, path string, argv []string, attr *os.ProcAttr,
) (proc *os.Process, err error) {
	g, _ := lifecycle.NewGroup(ctx)
	g.Go("fork shim", func() error {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() { // the only thread that the runtime does not throw away: it is held meanwhile
			defer runtime.UnlockOSThread()
			proc, err = l.fork(ctx, alloc, path, argv, attr)
			return err
		}
		visit, err := l.tree.VisitShim(l.cfg.Slice, alloc)
		if err != nil {
			return err
		}
		proc, err = os.StartProcess(path, argv, attr)
		if leaveErr := visit.End(); leaveErr != nil {
			l.cfg.Log.Warn("a thread did not find back from a shim's cgroups and ends", logkey.Alloc, alloc,
				logkey.Error, leaveErr)
			return err
		}
		runtime.UnlockOSThread()
		return err
	})
	err = g.Wait()
	return proc, err
}

// readComplaint reads what a shim that did not come up wrote, without waiting for one that holds the pipe.
func readComplaint(r *os.File) string {
	if err := r.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return ""
	}
	b, _ := io.ReadAll(io.LimitReader(r, 2000)) // what came before the failure is what there is
	return strings.TrimSpace(string(b))
}

// reap waits for a shim that this process started and that has ended, or can be reached by nobody: that is killed.
func (l *Launcher) reap(alloc string) {
	l.mu.Lock()
	p := l.children[stem(alloc)]
	delete(l.children, stem(alloc))
	l.mu.Unlock()
	if p == nil {
		return
	}
	_ = p.Kill() // fails when it is dead already
	if _, err := p.Wait(); err != nil {
		l.cfg.Log.Warn("waiting for a shim failed", logkey.Alloc, alloc, logkey.Error, err)
	}
}

// sweep removes what a dead shim of an alloc left: processes first, then cgroups and the socket.
func (l *Launcher) sweep(ctx context.Context, alloc string) error {
	l.reap(alloc)
	all := l.tree.Alloc(l.cfg.Slice, alloc)
	if err := all.Kill(); err != nil {
		return err
	}
	if err := all.WaitEmpty(ctx); err != nil {
		return err
	}
	if err := l.tree.RemoveAlloc(l.cfg.Slice, alloc); err != nil {
		return err
	}
	if err := l.users.Drop(stem(alloc)); err != nil {
		return err
	}
	if err := os.Remove(l.socket(alloc)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.Wrap(err, fault.Internal, "remove", "socket "+l.socket(alloc))
	}
	return nil
}

// waitDead returns when a process has ended.
func waitDead(ctx context.Context, pid int, start uint64) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "watch", fmt.Sprintf("process %d", pid))
	}
	defer unix.Close(fd)
	for {
		now, err := procs.StartTime(pid)
		if fault.Has(err, fault.NotFound) || err == nil && now != start {
			return nil
		}
		if ctx.Err() != nil {
			return fault.Wrap(ctx.Err(), fault.Timeout, "wait for the end of", fmt.Sprintf("shim %d", pid))
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 50); err != nil &&
			!errors.Is(err, unix.EINTR) {
			return fault.Wrap(err, fault.Internal, "watch", fmt.Sprintf("process %d", pid))
		}
	}
}
