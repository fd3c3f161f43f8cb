package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Backend starts the real plugin. Run is one run of it: it serves CSI on socket until ctx ends (then the plugin is
// killed, without a chance to tidy up) or the plugin ends by itself. It calls started once with the process id.
type Backend interface {
	Run(ctx context.Context, socket string, started func(pid int)) error
}

// Serving is a backend inside this process.
type Serving func(ctx context.Context, socket string) error

// Run serves until ctx ends.
func (s Serving) Run(ctx context.Context, socket string, started func(int)) error {
	started(os.Getpid())
	return s(ctx, socket)
}

// Command is a backend of its own process. In its arguments and environment Endpoint, as a path and as a URL, is
// replaced by the private socket; CSI_ENDPOINT is always set to it.
type Command struct {
	Args     []string
	Env      []string // nil: this process's
	Endpoint string   // the public endpoint, as the plugin's task received it
	Out      io.Writer
	Grace    time.Duration // on the end of ctx: SIGTERM and that long to leave; 0: SIGKILL at once
}

// Run starts the process in a group of its own and ends the whole group with it.
func (c Command) Run(ctx context.Context, socket string, started func(int)) error {
	if len(c.Args) == 0 {
		return errors.New("no plugin command is given")
	}
	public, private := strings.TrimPrefix(c.Endpoint, "unix://"), socket
	replaced := func(list []string) []string {
		out := make([]string, 0, len(list)+1)
		for _, s := range list {
			if public != "" {
				s = strings.ReplaceAll(s, public, private)
			}
			out = append(out, s)
		}
		return out
	}
	args := replaced(c.Args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	cmd.Env = append(replaced(env), "CSI_ENDPOINT=unix://"+private)
	cmd.Stdout, cmd.Stderr = c.Out, c.Out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	cmd.WaitDelay = time.Second
	if c.Grace > 0 {
		cmd.WaitDelay = c.Grace
	}
	cmd.Cancel = func() error {
		if c.Grace > 0 && !errors.Is(context.Cause(ctx), errCrashed) {
			return unix.Kill(cmd.Process.Pid, unix.SIGTERM)
		}
		return unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the plugin behind the proxy: %w", err)
	}
	started(cmd.Process.Pid)
	err := cmd.Wait()
	if killing := unix.Kill(-cmd.Process.Pid, unix.SIGKILL); killing != nil && !errors.Is(killing, unix.ESRCH) {
		err = errors.Join(err, killing)
	}
	return err
}
