package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"berth/internal/base/lifecycle"
)

// confined calls plugins with what they need of the environment alone: the agent's own may hold secrets. What a plugin
// has started ends with its call, and both with the agent: a call that went on beside the next one could attach what
// that has detached.
type confined struct{ invoke.Exec }

func newExec() invoke.Exec { return confined{&invoke.DefaultExec{RawExec: &invoke.RawExec{}}} }

// outputGrace is how long the output of a plugin that has ended, or was killed, may be held open by what it has
// started.
const outputGrace = time.Second

// busyTries is how often a plugin is started whose file is being written.
const busyTries = 5

// ExecPlugin implements invoke.Exec.
func (c confined) ExecPlugin(
	ctx context.Context, path string, stdin []byte, env []string,
) (out []byte, err error) {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return !strings.HasPrefix(kv, "CNI_") && !strings.HasPrefix(kv, "PATH=")
	})
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("CNI plugin", func() error {
		runtime.LockOSThread() // the kernel ends the plugin with the thread that started it
		defer runtime.UnlockOSThread()
		for range busyTries {
			if out, err = run(gctx, path, stdin, env); !errors.Is(err, unix.ETXTBSY) {
				break
			}
			time.Sleep(outputGrace / 10)
		}
		return nil
	})
	return out, errors.Join(err, g.Wait())
}

func run(ctx context.Context, path string, stdin []byte, env []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path)
	cmd.Env, cmd.Stdin = env, bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = outputGrace
	err := cmd.Run()
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what it has left running; mostly there is nothing
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w; it was killed", context.Cause(ctx))
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return stdout.Bytes(), nil
	}
	if stdout.Len() == 0 {
		return nil, fmt.Errorf("%w: %.500s", err, strings.TrimSpace(stderr.String()))
	}
	said := &types.Error{}
	if json.Unmarshal(stdout.Bytes(), said) != nil {
		return nil, fmt.Errorf("%w: %.500s", err, strings.TrimSpace(stdout.String()))
	}
	return nil, said
}
