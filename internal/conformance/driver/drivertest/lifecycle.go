package drivertest

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
)

func exitCode(b *bench) {
	cfg := b.config("echo out; echo err >&2; exit 7")
	task := b.start(cfg)
	if exit := b.wait(task); exit.ExitCode != 7 || exit.Signal != 0 || exit.OOMKilled || exit.Unknown ||
		exit.Ended.IsZero() {
		b.Errorf("exit %+v", exit)
	}
	if exit := b.wait(task); exit.ExitCode != 7 {
		b.Errorf("the second wait says %+v", exit)
	}
	if out, err := b.output(cfg, "stdout"), b.output(cfg, "stderr"); out != "out\n" || err != "err\n" {
		b.Errorf("stdout %q, stderr %q", out, err)
	}
	b.stop(task)
	if exit := b.wait(task); exit.ExitCode != 7 {
		b.Errorf("after stop the wait says %+v", exit)
	}
}

func environment(b *bench) {
	cfg := b.config(
		`echo "$GREETING"; echo "$(cat local/note)"; ls /definitely-not-there 2>/dev/null; test -n "$PATH" && echo path; umask`)
	if err := os.WriteFile(filepath.Join(cfg.TaskDir, "local/note"), []byte("from local"), 0o644); err != nil {
		b.Fatal(err)
	}
	b.wait(b.start(cfg))
	if out := b.output(cfg, "stdout"); out != "hello\nfrom local\npath\n0022\n" {
		b.Errorf("output %q; stderr %q", out, b.output(cfg, "stderr"))
	}
}

func notFound(b *bench) {
	for _, command := range []string{"no-such-command", "/no/such/command", "/etc/passwd", "/etc"} {
		cfg := b.config("")
		cfg.Config["command"] = command
		task, err := b.d.Start(b.context(), cfg)
		if err == nil {
			b.tasks = append(b.tasks, task)
			b.Errorf("%s was started", command)
			continue
		}
		if !fault.Has(err, fault.Invalid) {
			b.Errorf("%s: kind %v", command, fault.KindOf(err))
		}
		text := err.Error()
		if !strings.Contains(text, `command "`+command+`"`) || !strings.Contains(text, `task "web"`) {
			b.Errorf("the error does not name task and command: %s", text)
		}
		if left := b.h.Leftovers(b); len(left) > 0 {
			b.Errorf("%s left %v", command, left)
		}
	}
}

func badConfig(b *bench) {
	for name, change := range map[string]func(*driver.TaskConfig){
		"config.comand":   func(c *driver.TaskConfig) { c.Config["comand"] = "x" },
		"config.command":  func(c *driver.TaskConfig) { delete(c.Config, "command") },
		"config.args":     func(c *driver.TaskConfig) { c.Config["args"] = "x" },
		`user "nobody-x"`: func(c *driver.TaskConfig) { c.User = "nobody-x" },
		"NUL":             func(c *driver.TaskConfig) { c.Env["A"] = "a\x00b" },
	} {
		if slices.Contains(b.h.Takes, name) {
			continue
		}
		cfg := b.config("true")
		change(cfg)
		task, err := b.d.Start(b.context(), cfg)
		if err == nil {
			b.tasks = append(b.tasks, task)
			b.Errorf("%s was accepted", name)
			continue
		}
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), name) {
			b.Errorf("%s: kind %v, text %s", name, fault.KindOf(err), err)
		}
	}
}

func signals(b *bench) {
	cfg := b.config(`trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.02; done`)
	task := b.start(cfg)
	b.printed(cfg, "ready")
	if err := task.Signal(b.context(), "SIGNONSENSE"); !fault.Has(err, fault.Invalid) {
		b.Errorf("a signal that does not exist: %v", err)
	}
	if err := task.Signal(b.context(), "SIGUSR1"); err != nil {
		b.Fatal(err)
	}
	if exit := b.wait(task); exit.ExitCode != 5 {
		b.Errorf("exit %+v", exit)
	}
	if err := task.Signal(b.context(), "SIGUSR1"); err != nil && !fault.Has(err, fault.NotFound) {
		b.Errorf("signalling an ended task: %v", err)
	}
	cfg = b.config("echo ready; exec sleep 1000")
	cfg.Attempt = 2
	task = b.start(cfg)
	b.printed(cfg, "ready")
	if err := task.Signal(b.context(), "SIGKILL"); err != nil {
		b.Fatal(err)
	}
	if exit := b.wait(task); exit.Signal != 9 || exit.ExitCode != 137 || exit.OOMKilled {
		b.Errorf("ended by a signal, the exit is %+v", exit)
	}
}

func stopWithGrace(b *bench) {
	// Drivers that do not say what they send are taken to send what most do.
	signal := cmp.Or(strings.TrimPrefix(b.d.Info().Capabilities.DefaultSignal, "SIG"), "TERM")
	cfg := b.config(`trap 'exit 9' ` + signal +
		`; echo ready; while :; do sleep 0.02; done`)
	task := b.start(cfg)
	b.printed(cfg, "ready")
	// A stop ends with its task: one that sat out the grace would outlive the context of the call.
	if err := task.Stop(b.context(), "", time.Hour); err != nil {
		b.Fatal(err)
	}
	if exit := b.wait(task); exit.ExitCode != 9 || exit.Signal != 0 {
		b.Errorf("exit %+v", exit)
	}
	// A plain program without a handler dies of the signal at once, as it does outside.
	cfg = b.config("exec sleep 1000")
	cfg.Task, cfg.Attempt = "web", 2
	task = b.start(cfg)
	if err := task.Stop(b.context(), "SIGTERM", time.Hour); err != nil {
		b.Fatal(err)
	}
	if exit := b.wait(task); exit.Signal != 15 || exit.ExitCode != 143 {
		b.Errorf("exit %+v", exit)
	}
}

func stopStubborn(b *bench) {
	cfg := b.config(`trap '' INT TERM; echo ready; while :; do sleep 0.02; done`)
	task := b.start(cfg)
	b.printed(cfg, "ready")
	if err := task.Stop(b.context(), "SIGTERM", 300*time.Millisecond); err != nil {
		b.Fatal(err)
	}
	if exit := b.wait(task); exit.Signal != 9 {
		b.Errorf("exit %+v", exit)
	}
}

func stopTree(b *bench) {
	m := mark()
	cfg := b.config(`(setsid sh -c 'trap "" INT TERM HUP; sleep ` + m + ` & sleep ` + m +
		`' >/dev/null 2>&1 &) ; echo ready; sleep ` + m)
	task := b.start(cfg)
	b.printed(cfg, "ready")
	b.eventually("three sleepers run", func() bool { return len(running(b, "sleep", m)) == 3 })
	if err := task.Stop(b.context(), "SIGTERM", time.Second); err != nil {
		b.Fatal(err)
	}
	if left := running(b, "sleep", m); len(left) > 0 {
		b.Errorf("still running: %v", left)
	}
}

func recoverRunning(b *bench) {
	cfg := b.config(`echo ready; while ! test -e local/go; do sleep 0.02; done; echo more; exit 4`)
	first := b.start(cfg)
	b.printed(cfg, "ready")
	b.d = b.h.New(b)
	task, err := b.d.Recover(b.context(), first.Handle())
	if err != nil {
		b.Fatal(err)
	}
	b.tasks = []driver.Task{task}
	if err := os.WriteFile(filepath.Join(cfg.TaskDir, "local/go"), nil, 0o644); err != nil {
		b.Fatal(err)
	}
	if exit := b.wait(task); exit.ExitCode != 4 {
		b.Errorf("exit %+v", exit)
	}
	if out := b.output(cfg, "stdout"); out != "ready\nmore\n" {
		b.Errorf("output %q", out)
	}
}

func recoverEnded(b *bench) {
	cfg := b.config(`sleep 0.1; echo late; exit 6`)
	first := b.start(cfg)
	b.printed(cfg, "late")
	time.Sleep(100 * time.Millisecond)
	b.d = b.h.New(b)
	task, err := b.d.Recover(b.context(), first.Handle())
	if err != nil {
		b.Fatal(err)
	}
	if exit := b.wait(task); exit.ExitCode != 6 || exit.Unknown {
		b.Errorf("exit %+v", exit)
	}
	b.stop(task)
	if _, err := b.d.Recover(b.context(), first.Handle()); !fault.Has(err, fault.NotFound) {
		b.Errorf("a forgotten task is recovered: %v", err)
	}
	b.tasks = nil
}

func unknownAttempt(b *bench) {
	m := mark()
	b.start(b.config("exec sleep " + m))
	b.tasks = nil // the agent dies before it wrote the handle down
	b.d = b.h.New(b)
	cfg := b.config("sleep 1000")
	cfg.Attempt = 2
	b.start(cfg)
	if left := running(b, "sleep", m); len(left) > 0 {
		b.Errorf("the first attempt still runs: %v", left)
	}
}

func startedTwice(b *bench) {
	cfg := b.config(`echo started; while ! test -e local/go; do sleep 0.02; done; exit 6`)
	first := b.start(cfg)
	b.printed(cfg, "started")
	b.tasks = nil // the agent dies before it wrote the handle down
	b.d = b.h.New(b)
	again := b.start(cfg)
	if first.Handle().PID != again.Handle().PID || b.output(cfg, "stdout") != "started\n" {
		b.Errorf("processes %d and %d, output %q", first.Handle().PID, again.Handle().PID, b.output(cfg, "stdout"))
	}
	if err := os.WriteFile(filepath.Join(cfg.TaskDir, "local/go"), nil, 0o644); err != nil {
		b.Fatal(err)
	}
	if exit := b.wait(again); exit.ExitCode != 6 {
		b.Errorf("exit %+v", exit)
	}
	b.tasks, b.d = nil, b.h.New(b)
	if exit := b.wait(b.start(cfg)); exit.ExitCode != 6 || b.output(cfg, "stdout") != "started\n" {
		b.Errorf("after its end it is started again: exit %+v, output %q", exit, b.output(cfg, "stdout"))
	}
}

func stopGivenUp(b *bench) {
	cfg := b.config(`trap '' INT TERM; echo ready; while :; do sleep 0.02; done`)
	task := b.start(cfg)
	b.printed(cfg, "ready")
	ctx, cancel := context.WithTimeout(b.context(), 50*time.Millisecond) // runs out before the grace
	defer cancel()
	if err := task.Stop(ctx, "SIGTERM", 2*time.Second); err == nil {
		b.Error("the stop ended before its grace")
	}
	if exit := b.wait(task); exit.Signal != 9 {
		b.Errorf("exit %+v", exit)
	}
	if err := task.Stop(b.context(), "SIGTERM", time.Hour); err != nil {
		b.Error(err)
	}
}

func holderKilled(b *bench) {
	m := mark()
	cfg := b.config(`(setsid sleep ` + m + ` &); echo ready; sleep ` + m)
	task := b.start(cfg)
	b.printed(cfg, "ready")
	b.eventually("both sleepers run", func() bool { return len(running(b, "sleep", m)) == 2 })
	var exit driver.ExitResult
	join := b.beside(func() { exit, _ = task.Wait(b.context()) }) // an error leaves the exit empty
	time.Sleep(50 * time.Millisecond)
	kill(b, b.h.Holder(b, task.Handle()))
	join()
	if !exit.Unknown || exit.Successful() || exit.Err == "" {
		b.Errorf("exit %+v", exit)
	}
	if left := running(b, "sleep", m); len(left) > 0 {
		b.Errorf("still running: %v", left)
	}
	b.stop(task)
}

func holderKilledAlone(b *bench) {
	m := mark()
	cfg := b.config(`(setsid sleep ` + m + ` &); echo ready; sleep ` + m)
	task := b.start(cfg)
	b.printed(cfg, "ready")
	b.eventually("both sleepers run", func() bool { return len(running(b, "sleep", m)) == 2 })
	kill(b, b.h.Holder(b, task.Handle()))
	if b.d.Info().Capabilities.SelfFence {
		b.eventually("all processes died with their holder", func() bool { return len(running(b, "sleep", m)) == 0 })
	}
	b.d = b.h.New(b)
	_, err := b.d.Recover(b.context(), task.Handle())
	if !fault.Has(err, fault.NotFound) {
		b.Errorf("recover: %v", err)
	}
	if left := running(b, "sleep", m); len(left) > 0 {
		b.Errorf("still running: %v", left)
	}
	b.tasks = nil
}

func severalTasks(b *bench) {
	web := b.config("exec sleep 1000")
	db := b.adjusted(Config(b, b.dir, b.alloc, "db", "exec sleep 1000"))
	first, second := b.start(web), b.start(db)
	if b.h.Holder(b, first.Handle()) != b.h.Holder(b, second.Handle()) {
		b.Error("two tasks of an alloc have two holders")
	}
	b.stop(first)
	if _, err := second.Stats(b.context()); err != nil {
		b.Errorf("the second task suffered from the end of the first: %v", err)
	}
	b.stop(second)
	b.stop(second)
}

// aborted: of a start whose answer nobody has heard nothing is left after it was aborted, and the next attempt runs.
func aborted(b *bench) {
	m := mark()
	cfg := b.config("exec sleep " + m)
	b.start(cfg)
	b.tasks, b.d = nil, b.h.New(b) // the agent dies before it wrote the handle down
	for range 2 {                  // the second time there is nothing
		if err := b.d.Abort(b.context(), cfg.Alloc, cfg.Task, cfg.Attempt); err != nil {
			b.Fatal(err)
		}
		if left := running(b, "sleep", m); len(left) > 0 {
			b.Errorf("it lives on: %v", left)
		}
	}
	next := *cfg
	next.Attempt++
	b.start(&next)
	b.eventually("the next attempt runs", func() bool { return len(running(b, "sleep", m)) == 1 })
	if err := b.d.Abort(b.context(), cfg.Alloc, "never", 1); err != nil {
		b.Errorf("a task that never was: %v", err)
	}
}
