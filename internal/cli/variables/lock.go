package variables

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/bootclock"
	"berth/internal/base/fault"
	"berth/internal/base/leased"
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

func newLock(e *kit.Env) *kit.Command {
	l := &locking{}
	cmd := &kit.Command{
		Use:   "lock [flags] <path> <program> [argument...]",
		Short: "Run a program while holding the lock of a variable",
		Long: `Takes the lock of a variable, which is made if there is none, runs a program, and gives the lock back
when that ends. While somebody else holds it, it waits. The lock is renewed all the while; once it is lost, because the
servers could not be reached within its TTL, the program gets SIGTERM, and SIGKILL 5 s later, sooner with a short delay.
So it does when this command ends, however. What the program has started ends with it. Its exit code is the command's.`,
		Example: `  berth var lock app/leader ./backup.sh
  berth var lock -ttl 30s -max-retry 3 app/leader ./backup.sh -full`,
		Foreign: true,
		Run: func(ctx context.Context, args []string) error {
			program := args[1:]
			if l.shell {
				program = []string{"/bin/sh", "-c", strings.Join(program, " ")}
			}
			if _, err := exec.LookPath(program[0]); err != nil {
				return kit.Fail(fault.NotFound, "name one that is there", "the program cannot be run: %v", err)
			}
			held, asked, err := l.acquire(ctx, e, args[0])
			if err != nil {
				return err
			}
			l.say(e, "Variable %q locked\n", args[0])
			return l.run(ctx, e, held, asked, program)
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

// acquire waits for the lock, and says when it was asked for.
func (l *locking) acquire(
	ctx context.Context, e *kit.Env, path string,
) (held *api.Variable, asked time.Duration, err error) {
	want := &api.Variable{Path: path, Lock: &api.VariableLock{TTL: l.ttl.String(), LockDelay: l.delay.String()}}
	for try := 0; ; try++ {
		asked = bootclock.Now()
		held, err = e.Client().Variables().Acquire(ctx, want, nil)
		var met *api.VariableConflict
		switch {
		case err == nil:
			return held, asked, nil
		case !errors.As(err, &met):
			return nil, 0, kit.Doing(err, "lock", "variable", path)
		case l.tries > 0 && try >= l.tries:
			return nil, 0, kit.Fail(fault.Conflict, "try again later, or more often with -max-retry",
				"somebody else holds the lock of variable %q", path)
		}
		l.say(e, "Somebody else holds the lock of variable %q; waiting\n", path)
		// The index does not grow when the delay of a lost lock is over, and who may only write reads nothing.
		_, _, err = e.Client().Variables().Get(ctx, path,
			&api.QueryOptions{WaitIndex: met.Found.ModifyIndex, WaitTime: 5 * time.Second})
		if (err != nil || met.Found.Lock == nil) && !retry.Sleep(ctx, time.Second) {
			return nil, 0, ctx.Err()
		}
	}
}

// run runs the program, and ends it before somebody else may have the lock.
func (l *locking) run(ctx context.Context, e *kit.Env, held *api.Variable, asked time.Duration, args []string) error {
	on := terms{l.ttl, l.delay}
	program, err := leased.Start(args, leased.Streams{In: e.In, Out: e.Out, Err: e.Err},
		leased.Terms{Until: on.until(asked), Grace: on.grace()})
	if err != nil {
		return errors.Join(err, l.release(ctx, e, held))
	}
	g, gctx := lifecycle.NewGroup(ctx)
	var code int
	var broken, lost error
	g.Go("program", func() error {
		code, broken = program.Wait()
		g.Stop()
		return nil
	})
	g.Go("renewals", func() error {
		lost = renew(gctx, e, held, on, asked, program)
		program.Stop()
		return nil
	})
	_ = g.Wait() // both say by themselves how they ended
	if lost != nil {
		return kit.Fail(fault.Conflict, "its program was ended", "the lock of variable %q was lost: %v", held.Path,
			lost)
	}
	if err := errors.Join(broken, l.release(ctx, e, held)); err != nil {
		return err
	}
	if code != 0 {
		return &kit.Exit{Code: code}
	}
	return nil
}

// release gives the lock back. What the context of the command was ended by does not keep it.
func (l *locking) release(ctx context.Context, e *kit.Env, held *api.Variable) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPause)
	defer cancel()
	if _, err := e.Client().Variables().Release(within, held, nil); err != nil {
		return kit.Doing(err, "release", "the lock of variable", held.Path)
	}
	l.say(e, "Variable %q unlocked\n", held.Path)
	return nil
}

// renew renews the lock until ctx ends; the error says that it is lost. The program hears of each renewal: should this
// process stand still, it is ended all the same.
func renew(
	ctx context.Context, e *kit.Env, held *api.Variable, on terms, asked time.Duration, program *leased.Program,
) error {
	usual := on.ttl / 3
	for pause := usual; retry.Sleep(ctx, pause); {
		now := bootclock.Now()
		within, cancel := context.WithTimeout(ctx, on.until(asked)-now)
		_, err := e.Client().Variables().Renew(within, held, nil)
		cancel()
		var met *api.VariableConflict
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			asked, pause = now, usual
			if err := program.Extend(on.until(asked)); err != nil {
				return nil // it has ended
			}
		case errors.As(err, &met):
			return errors.New("the servers have taken it")
		case bootclock.Now()+tryPause >= on.until(asked):
			return fmt.Errorf("it could not be renewed for %s: %w", (bootclock.Now() - asked).Round(time.Second), err)
		default:
			pause = tryPause
		}
	}
	return nil
}
