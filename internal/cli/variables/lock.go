package variables

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/cli/kit"
)

// locking is how a lock is taken and held.
type locking struct {
	ttl, delay time.Duration
	tries      int
	shell      bool
	verbose    bool
}

// endPause is how long a program whose lock was lost has to end by itself.
const endPause = 5 * time.Second

func newLock(e *kit.Env) *kit.Command {
	l := &locking{}
	cmd := &kit.Command{
		Use:   "lock [flags] <path> <program> [argument...]",
		Short: "Run a program while holding the lock of a variable",
		Long: `Takes the lock of a variable, which is made if there is none, runs a program, and gives the lock back
when that ends. While somebody else holds it, it waits. The lock is renewed all the while; once it is lost, because the
servers could not be reached within its TTL, the program gets SIGTERM, and SIGKILL 5 s later. Its exit code is the
command's.`,
		Example: `  berth var lock app/leader ./backup.sh
  berth var lock -ttl 30s -max-retry 3 app/leader ./backup.sh -full`,
		Foreign: true,
		Run: func(ctx context.Context, args []string) error {
			held, err := l.acquire(ctx, e, args[0])
			if err != nil {
				return err
			}
			l.say(e, "Variable %q locked\n", args[0])
			return l.run(ctx, e, held, args[1:])
		},
	}
	f := cmd.Flags()
	f.DurationVar(&l.ttl, "ttl", 15*time.Second, "how long the lock holds without being renewed, from 10s to 24h")
	f.DurationVar(&l.delay, "delay", 15*time.Second, "how long nobody takes the lock after it was lost")
	f.IntVar(&l.tries, "max-retry", 0, "how `often` to try again while somebody else holds it; 0: until it is free")
	f.BoolVar(&l.shell, "shell", false, "have /bin/sh run the arguments, as one line")
	f.BoolVar(&l.verbose, "verbose", false, "say what happens to the lock")
	return cmd
}

func (l *locking) say(e *kit.Env, format string, args ...any) {
	if l.verbose {
		e.Err.Printf(format, args...)
	}
}

// acquire waits for the lock.
func (l *locking) acquire(ctx context.Context, e *kit.Env, path string) (*api.Variable, error) {
	want := &api.Variable{Path: path, Lock: &api.VariableLock{TTL: l.ttl.String(), LockDelay: l.delay.String()}}
	for try := 0; ; try++ {
		held, err := e.Client().Variables().Acquire(ctx, want, nil)
		var met *api.VariableConflict
		switch {
		case err == nil:
			return held, nil
		case !errors.As(err, &met):
			return nil, kit.Doing(err, "lock", "variable", path)
		case l.tries > 0 && try >= l.tries:
			return nil, kit.Fail(fault.Conflict, "try again later, or more often with -max-retry",
				"somebody else holds the lock of variable %q", path)
		}
		l.say(e, "Somebody else holds the lock of variable %q; waiting\n", path)
		// The index does not grow when the delay of a lost lock is over, and who may only write reads nothing.
		_, _, err = e.Client().Variables().Get(ctx, path,
			&api.QueryOptions{WaitIndex: met.Found.ModifyIndex, WaitTime: 5 * time.Second})
		if (err != nil || met.Found.Lock == nil) && !retry.Sleep(ctx, time.Second) {
			return nil, ctx.Err()
		}
	}
}

// run runs the program, and ends it when the lock is lost.
func (l *locking) run(ctx context.Context, e *kit.Env, held *api.Variable, args []string) error {
	if l.shell {
		args = []string{"/bin/sh", "-c", strings.Join(args, " ")}
	}
	g, gctx := lifecycle.NewGroup(ctx)
	cmd := exec.CommandContext(gctx, args[0], args[1:]...)
	cmd.Stdin = e.In
	cmd.Stdout, cmd.Stderr = e.Out, e.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endPause
	var ended, lost error
	g.Go("program", func() error {
		ended = cmd.Run()
		g.Stop()
		return nil
	})
	g.Go("renewals", func() error {
		lost = l.renew(gctx, e, held)
		if lost != nil {
			g.Stop()
		}
		return nil
	})
	_ = g.Wait() // both say by themselves how they ended
	if lost != nil {
		return kit.Fail(fault.Conflict, "its program was ended", "the lock of variable %q was lost: %v", held.Path,
			lost)
	}
	// What the context of the command was ended by does not keep the lock.
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPause)
	defer cancel()
	if _, err := e.Client().Variables().Release(release, held, nil); err != nil {
		return kit.Doing(err, "release", "the lock of variable", held.Path)
	}
	l.say(e, "Variable %q unlocked\n", held.Path)
	var code *exec.ExitError
	if errors.As(ended, &code) && code.ExitCode() > 0 {
		return &kit.Exit{Code: code.ExitCode()}
	}
	return ended
}

// renew renews the lock until ctx ends; the error says that it is lost.
func (l *locking) renew(ctx context.Context, e *kit.Env, held *api.Variable) error {
	last := time.Now()
	for retry.Sleep(ctx, l.ttl/3) {
		asked := time.Now()
		within, cancel := context.WithDeadline(ctx, last.Add(l.ttl))
		_, err := e.Client().Variables().Renew(within, held, nil)
		cancel()
		var met *api.VariableConflict
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			last = asked
		case errors.As(err, &met):
			return errors.New("the servers have taken it")
		case time.Since(last)+l.ttl/3 > l.ttl:
			return fmt.Errorf("it could not be renewed for %s: %w", time.Since(last).Round(time.Second), err)
		}
	}
	return nil
}
