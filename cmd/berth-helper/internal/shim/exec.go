package shim

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/cmd/berth-helper/internal/spawn"
	"berth/internal/base/fault"
	"berth/internal/cgroup"
	"berth/internal/shimproto"
)

// session is one command run beside a process.
type session struct {
	conn  *conn
	group *cgroup.Group // of the process beside which it runs
	child *spawn.Child
	stdin *os.File
	outs  []*os.File
}

// drainLimit bounds how long a session waits for output after its command has ended: a daemon that it left behind may
// hold the streams open for ever.
const drainLimit = 250 * time.Millisecond

// exec runs a command in the namespaces, cgroup, environment, user and privileges of a process, and streams it.
func (c *conn) exec(payload []byte) (shimproto.Message, error) {
	var m shimproto.Exec
	if err := shimproto.Unmarshal(payload, &m); err != nil {
		return nil, err
	}
	m.Complete()
	p, ended, err := c.shim.find(m.Named)
	if err != nil {
		return nil, err
	}
	if ended != nil {
		return ended, nil
	}
	if len(m.Argv) == 0 || m.Argv[0] == "" {
		return nil, fault.New(fault.Invalid, "exec in", "process "+m.Name, "the command is empty")
	}
	switch e := p.entry(); {
	case e.Starting:
		return nil, fault.New(fault.NotReady, "exec in", "process "+m.Name, "it does not run yet")
	case e.Ended:
		return nil, fault.New(fault.Conflict, "exec in", "process "+m.Name, "it has ended")
	}
	s := &session{conn: c, group: p.cgroup}
	err = s.start(p, &m)
	if code, is := spawn.ExitCode(err); is {
		return nil, hungUp(c.sayUnrunnable(err, code, m.TTY))
	}
	if err != nil {
		return nil, err
	}
	if err := shimproto.WriteRaw(c, shimproto.TypeDone, nil); err != nil {
		s.abandon()
		return nil, hungUp(err)
	}
	return nil, s.run()
}

// sayUnrunnable ends a session whose command cannot run as a shell would: with a sentence on its standard error, which
// a terminal shows with the output, and with the exit code for that.
func (c *conn) sayUnrunnable(why error, code int, tty bool) error {
	stream, end := shimproto.TypeStderr, "\n"
	if tty {
		stream, end = shimproto.TypeStdout, "\r\n" // the keyboard's side is raw
	}
	if err := shimproto.WriteRaw(c, shimproto.TypeDone, nil); err != nil {
		return err
	}
	if err := shimproto.WriteRaw(c, stream, []byte("berth: "+why.Error()+end)); err != nil {
		return err
	}
	return shimproto.Write(c, shimproto.TypeExit, &shimproto.Exit{Code: code, Ended: time.Now().UnixNano()})
}

func (s *session) start(p *process, m *shimproto.Exec) error {
	spec := p.spec(m.Argv)
	if m.TTY {
		spec.TTY = &spawn.Size{Height: m.Height, Width: m.Width}
		spec.Env = withTerm(spec.Env)
		child, err := spawn.Start(s.conn.shim.group, spec)
		if err != nil {
			return err
		}
		s.child = child
		s.stdin = child.Master
		s.outs = []*os.File{child.Master}
		return nil
	}
	var pipes [3][2]int
	var err error
	for i := range pipes {
		if err = unix.Pipe2(pipes[i][:], unix.O_CLOEXEC); err != nil {
			return fault.Wrap(err, fault.Exhausted, "open", "pipes for the command")
		}
		ours := pipes[i][0]
		if i == 0 {
			ours = pipes[i][1]
		}
		if err = unix.SetNonblock(ours, true); err != nil {
			return err
		}
	}
	spec.Files = []*os.File{os.NewFile(uintptr(pipes[0][0]), "stdin"), os.NewFile(uintptr(pipes[1][1]), "stdout"),
		os.NewFile(uintptr(pipes[2][1]), "stderr")}
	s.stdin = os.NewFile(uintptr(pipes[0][1]), "stdin")
	s.outs = []*os.File{os.NewFile(uintptr(pipes[1][0]), "stdout"), os.NewFile(uintptr(pipes[2][0]), "stderr")}
	s.child, err = spawn.Start(s.conn.shim.group, spec)
	for _, f := range spec.Files {
		_ = f.Close() // the child has its own
	}
	if err != nil {
		s.closeFiles()
	}
	return err
}

func withTerm(env []string) []string {
	for _, kv := range env {
		if len(kv) >= 5 && kv[:5] == "TERM=" {
			return env
		}
	}
	return append(append([]string{}, env...), "TERM=xterm")
}

func (s *session) closeFiles() {
	_ = s.stdin.Close() // closing twice is harmless
	for _, f := range s.outs {
		_ = f.Close()
	}
}

// abandon kills the command of an agent that hung up, and what it has started. Of that only daemons stay, which have
// left its session and whose parents have ended: they end with the task.
func (s *session) abandon() {
	s.child.SignalGroup(unix.SIGSTOP) // it starts nothing more, and nobody becomes the child of another
	for range killRounds {
		if !killOffspring(s.child.PID, s.group.Processes()) {
			break
		}
	}
	s.child.SignalGroup(unix.SIGKILL)
	<-s.child.Done()
	s.closeFiles()
	s.child.Close()
}

// run carries the streams until the command has ended and its output was sent.
func (s *session) run() error {
	drained := make(chan struct{}, len(s.outs))
	for i, f := range s.outs {
		s.conn.shim.goAsync("exec output", func() error {
			defer func() { drained <- struct{}{} }()
			return s.copyOut(f, shimproto.TypeStdout+shimproto.Type(i))
		})
	}
	hangup := make(chan struct{})
	s.conn.shim.goAsync("exec input", func() error {
		defer close(hangup)
		return s.copyIn()
	})
	select {
	case <-s.child.Done():
	case <-hangup:
		s.abandon()
		return nil
	}
	deadline := time.Now().Add(drainLimit)
	for _, f := range s.outs {
		_ = f.SetReadDeadline(deadline) // all outs are pollable
	}
	for range s.outs {
		<-drained
	}
	var exit shimproto.Exit
	var err error
	exit.Code, exit.Signal, err = s.child.Exit()
	if err != nil {
		exit.Err = err.Error()
	}
	exit.Ended = time.Now().UnixNano()
	s.closeFiles()
	s.child.Close()
	return hungUp(shimproto.Write(s.conn, shimproto.TypeExit, &exit))
}

// copyOut sends what the command prints. A terminal whose last holder is gone reads as EIO.
func (s *session) copyOut(f *os.File, t shimproto.Type) error {
	buf := make([]byte, 16<<10)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			if err := shimproto.WriteRaw(s.conn, t, buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, unix.EIO), errors.Is(err, os.ErrDeadlineExceeded),
			errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return err
		}
	}
}

// copyIn hands on what the agent sends until it hangs up.
func (s *session) copyIn() error {
	for {
		t, payload, err := shimproto.Read(s.conn.file)
		if err != nil {
			return hungUp(err)
		}
		switch t {
		case shimproto.TypeStdin:
			if err := s.feed(payload); err != nil && hungUp(err) != nil && !errors.Is(err, unix.EIO) {
				return err
			}
		case shimproto.TypeStdinClose:
			if s.child.Master != nil {
				_, err = s.stdin.Write([]byte{4}) // end of input is a character on a terminal
			} else {
				err = s.stdin.Close()
			}
			if err != nil && hungUp(err) != nil && !errors.Is(err, unix.EIO) {
				return err
			}
		case shimproto.TypeResize:
			var m shimproto.Resize
			if err := shimproto.Unmarshal(payload, &m); err != nil {
				return err
			}
			if s.child.Master != nil {
				if err := spawn.Resize(s.child.Master, spawn.Size{Height: m.Height, Width: m.Width}); err != nil &&
					hungUp(err) != nil {
					return err
				}
			}
		}
	}
}

// feed writes to the command's input. A command that reads nothing must not hide that the agent hung up.
func (s *session) feed(b []byte) error {
	for {
		if err := s.stdin.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		n, err := s.stdin.Write(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		b = b[n:]
		if s.conn.isHungUp() {
			return unix.EPIPE
		}
	}
}

// isHungUp asks the kernel whether the agent closed its end.
func (c *conn) isHungUp() bool {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return true
	}
	fds := []unix.PollFd{{Events: unix.POLLRDHUP}}
	err = raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		_, _ = unix.Poll(fds, 0) // no event, no news
	})
	return err != nil || fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}
