package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
)

// marker is the variable by which the processes of a command are known, if the command is given up: the daemon has no
// way to end one.
const marker = "BERTH_EXEC"

// Exec implements driver.Task.
func (t *task) Exec(ctx context.Context, req driver.ExecRequest) (driver.ExitResult, error) {
	fail := func(err error) (driver.ExitResult, error) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return driver.ExitResult{}, fault.Note(err, "run a command in", subject(t.handle.Task))
	}
	if len(req.Command) == 0 || req.Command[0] == "" {
		return fail(fault.New(fault.Invalid, "", "", "there is no command"))
	}
	mark := marker + "=" + t.d.agentRun + "." + ids.New()
	id, err := t.d.api.NewExec(ctx, t.st.Container, &dockerapi.Exec{
		AttachStdin:  req.Stdin != nil,
		AttachStdout: true,
		AttachStderr: !req.TTY,
		Tty:          req.TTY,
		Env:          []string{mark},
		Cmd:          req.Command,
	})
	if err != nil {
		return fail(err)
	}
	s, err := t.d.api.StartExec(ctx, id, req.TTY)
	if err != nil {
		if exit, ok := t.unrunnable(ctx, req, err.Error()); ok && ctx.Err() == nil {
			return exit, nil
		}
		return fail(err)
	}
	stdout, stderr := beginningOf(req, req.Stdout), beginningOf(req, req.Stderr)
	err = t.converse(ctx, id, s, req, stdout, stderr)
	var exit driver.ExitResult
	if err == nil && ctx.Err() == nil {
		exit, err = t.ran(ctx, id)
	}
	if err != nil || ctx.Err() != nil { // nobody hears of it any more
		endMarked(context.WithoutCancel(ctx), mark)
		return fail(err)
	}
	for _, b := range []*beginning{stdout, stderr} {
		if held := b.kept.String(); held != "" {
			if found, ok := t.unrunnable(ctx, req, held); ok && exit.ExitCode != 0 {
				return found, nil
			}
		}
		if err := b.release(); err != nil {
			return fail(err)
		}
	}
	return exit, nil
}

// converse passes on the streams until the command writes no more.
func (t *task) converse(
	ctx context.Context, id string, s *dockerapi.Attached, req driver.ExecRequest, stdout, stderr io.Writer,
) error {
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // who waits for it sees that
	defer stop()
	defer func() { _ = s.Close() }() // it was read
	// Not waited for: a read of Stdin ends when its owner ends it.
	in, ictx := lifecycle.NewGroup(ctx)
	defer in.Stop()
	if req.Stdin != nil {
		in.Go("stdin", func() error {
			if _, err := io.Copy(s, req.Stdin); err == nil && !req.TTY {
				_ = s.CloseWrite() // the command may have ended
			}
			return nil // the command does not read any more
		})
	}
	in.Go("sizes", func() error {
		for {
			select {
			case <-ictx.Done():
				return nil
			case size, ok := <-req.Resize:
				if !ok {
					return nil
				}
				t.resize(ictx, id, size)
			}
		}
	})
	err := s.Copy(stdout, stderr)
	if closer, ok := req.Stdin.(io.Closer); ok {
		_ = closer.Close() // it may be closed already
	}
	return fault.Wrap(err, fault.Unavailable, "read the output of", "a command")
}

// resize gives a terminal its size. One that is not there yet is given it in a moment.
func (t *task) resize(ctx context.Context, id string, size driver.WindowSize) {
	for failures := 1; failures <= resizeTries; failures++ {
		if t.d.api.Resize(ctx, id, size.Height, size.Width) == nil {
			return
		}
		retry.Sleep(ctx, 20*time.Millisecond)
	}
}

const resizeTries = 50

// ran is how a command ended that writes no more.
func (t *task) ran(ctx context.Context, id string) (driver.ExitResult, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		r, err := t.d.api.Ran(ctx, id)
		if err != nil {
			return driver.ExitResult{}, err
		}
		if !r.Running && r.ExitCode != nil {
			return exit(dockerapi.State{ExitCode: *r.ExitCode, FinishedAt: time.Now()}), nil
		}
		if !retry.Sleep(ctx, pause) { // the daemon learns of the end after the output's
			return driver.ExitResult{}, ctx.Err()
		}
	}
}

// What a shell answers for a command that cannot run.
const (
	cannotExit   = 126
	notFoundExit = 127
)

// The daemon's words for a command that cannot run, and those of what was to become the command.
const (
	runtimeSays = "OCI runtime exec failed"
	initSays    = "exec "
	noFile      = "no such file or directory"
)

// unrunnable answers for a command that cannot run, as a shell does, with what the daemon says of it.
func (t *task) unrunnable(ctx context.Context, req driver.ExecRequest, text string) (driver.ExitResult, bool) {
	command := req.Command[0]
	code := cannotExit
	var why string
	switch {
	case strings.TrimSpace(text) == initSays+command+": "+noFile:
		why = "cannot run in the container: its interpreter or loader does not exist"
	case !strings.Contains(text, runtimeSays):
		return driver.ExitResult{}, false
	case strings.Contains(text, "executable file not found"), strings.Contains(text, "stat "+command+": "+noFile):
		code, why = notFoundExit, "not found in the container"
	case strings.Contains(text, noFile):
		why = "cannot run in the container: its interpreter or loader does not exist"
	case strings.Contains(text, "is a directory"):
		why = "is a directory in the container"
	case strings.Contains(text, "permission denied"):
		why = "is not executable in the container"
		if dir, err := t.d.api.IsDir(ctx, t.st.Container, command); err == nil && dir {
			why = "is a directory in the container"
		}
	default:
		return driver.ExitResult{}, false
	}
	to := req.Stderr
	if req.TTY || to == nil {
		to = req.Stdout
	}
	if to != nil {
		end := "\n"
		if req.TTY {
			end = "\r\n"
		}
		if _, err := fmt.Fprintf(to, "berth: command %q: %s%s", command, why, end); err != nil {
			return driver.ExitResult{}, false
		}
	}
	return driver.ExitResult{ExitCode: code, Ended: time.Now()}, true
}

// beginning holds back the first output of a command as long as it may be the daemon's word that it cannot run, which
// comes as if the command had written it.
type beginning struct {
	to   io.Writer
	may  []string // how what is held back begins
	kept bytes.Buffer
	open bool
}

func beginningOf(req driver.ExecRequest, to io.Writer) *beginning {
	if to == nil {
		to = io.Discard
	}
	return &beginning{to: to, may: []string{runtimeSays, initSays + req.Command[0] + ": " + noFile}}
}

func (b *beginning) Write(p []byte) (int, error) {
	if b.open {
		return b.to.Write(p)
	}
	b.kept.Write(p)
	for _, whole := range b.may {
		n := min(b.kept.Len(), len(whole))
		if string(b.kept.Bytes()[:n]) == whole[:n] && b.kept.Len() < maxHeld {
			return len(p), nil
		}
	}
	return len(p), b.release()
}

// maxHeld bounds what is held back; bytes.
const maxHeld = 4 << 10

func (b *beginning) release() error {
	b.open = true
	if b.kept.Len() == 0 {
		return nil
	}
	_, err := b.kept.WriteTo(b.to)
	return err
}

// endUnheld ends the commands in a container that an earlier run of the agent held. What a command that has ended left
// running stays.
func (d *Driver) endUnheld(ctx context.Context, c *dockerapi.Container) error {
	for _, id := range c.ExecIDs {
		r, err := d.api.Ran(ctx, id)
		if fault.Has(err, fault.NotFound) || err == nil && (!r.Running || r.Pid <= 0) {
			continue
		}
		if err != nil {
			return err
		}
		env, err := os.ReadFile("/proc/" + strconv.Itoa(r.Pid) + "/environ")
		if err != nil {
			continue // it has ended
		}
		for entry := range strings.SplitSeq(string(env), "\x00") {
			if run, ok := strings.CutPrefix(entry, marker+"="); ok && !strings.HasPrefix(run, d.agentRun+".") {
				endMarked(ctx, entry)
			}
		}
	}
	return nil
}

// endMarked kills all processes of a command that was given up.
func endMarked(ctx context.Context, mark string) {
	for failures := 0; failures < 100; failures++ {
		found := false
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		for _, e := range entries {
			var pid int
			if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil {
				continue
			}
			env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
			if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00")) {
				continue
			}
			found = true
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return
			}
		}
		if !found {
			return
		}
		retry.Sleep(ctx, 5*time.Millisecond)
	}
}
