package taskrunner_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/allocdir"
	"berth/internal/client/hook"
	"berth/internal/client/taskrunner"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// commands drives tasks in which every command ends alike.
type commands struct {
	*bench
	ends driver.ExitResult
	fail error
	ran  int
}

func (c *commands) Dispense(string) (driver.Driver, error) { return &commanded{c.driver, c}, nil }

type commanded struct {
	driver.Driver
	c *commands
}

func (d *commanded) Start(ctx context.Context, cfg *driver.TaskConfig) (driver.Task, error) {
	t, err := d.Driver.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &obeys{t, d.c}, nil
}

type obeys struct {
	driver.Task
	c *commands
}

func (o *obeys) Exec(context.Context, driver.ExecRequest) (driver.ExitResult, error) {
	o.c.ran++
	return o.c.ends, o.c.fail
}

// TestHowACommandInATaskEnds: its exit code is the answer, a signal as shells have it, a failure as one; and none is
// run in a process that has ended, also while the task waits for its restart.
func TestHowACommandInATaskEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commands{bench: newBench(t, job.TypeService, nil)}
		c.run(taskrunner.Config{
			Owner:   c,
			Host:    c,
			Bundle:  alloc.Bundle{Job: c.job, Alloc: &alloc.Alloc{ID: allocID, Job: c.job.ID, TaskGroup: "g"}},
			Task:    "web",
			Dir:     allocdir.New("/nowhere", allocID),
			Drivers: c,
			Mounts:  new(hook.Mounts),
			Log:     slog.New(slog.DiscardHandler),
		})
		defer c.end()
		time.Sleep(time.Second)
		runs := func() (int, error) {
			return c.r.RunCommand(t.Context(), []string{"check"}, &bytes.Buffer{})
		}
		for _, e := range []struct {
			ends driver.ExitResult
			fail error
			code int
		}{
			{driver.ExitResult{}, nil, 0},
			{driver.ExitResult{ExitCode: 7}, nil, 7},
			{driver.ExitResult{Signal: 9}, nil, 137},
			{driver.ExitResult{Signal: 9}, fault.New(fault.Unavailable, "run", "it", "it was killed"), 0},
		} {
			c.ends, c.fail = e.ends, e.fail
			code, err := runs()
			if (err != nil) != (e.fail != nil) || err == nil && code != e.code {
				t.Errorf("%+v, %v: code %d, %v", e.ends, e.fail, code, err)
			}
		}
		ran := c.ran
		c.ends, c.fail = driver.ExitResult{}, nil
		c.driver.Exit("web", driver.ExitResult{ExitCode: 1})
		time.Sleep(time.Second)
		if _, err := runs(); !fault.Has(err, fault.Conflict) || c.ran != ran {
			t.Errorf("in a process that has ended %d commands are run: %v", c.ran-ran, err)
		}
		if err := c.r.RestartUnhealthy("its check failed"); !fault.Has(err, fault.Conflict) {
			t.Errorf("a process that has ended is restarted: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := runs(); err != nil || c.ran != ran+1 {
			t.Errorf("in the process after it: %v", err)
		}
	})
}
