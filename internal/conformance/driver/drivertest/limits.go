package drivertest

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"berth/internal/port/driver"
)

func outOfMemory(b *bench) {
	cfg := b.config(`exec tail /dev/zero`)
	cfg.Resources.MemoryMB = 20
	task := b.start(cfg)
	exit := b.wait(task)
	if !exit.OOMKilled || exit.Signal != 9 || exit.ExitCode != 137 {
		b.Errorf("exit %+v", exit)
	}
	cfg = b.config(`tail /dev/zero; exit 1`)
	cfg.Attempt = 2
	cfg.Resources.MemoryMB = 10
	cfg.Resources.MemoryMaxMB = 20
	if exit := b.wait(b.start(cfg)); !exit.OOMKilled || exit.ExitCode != 1 {
		b.Errorf("a child was killed, and the exit is %+v", exit)
	}
	cfg = b.config(`trap 'exit 3' TERM; tail /dev/zero; echo lives; while :; do sleep 0.02; done`)
	cfg.Attempt, cfg.Resources.MemoryMB = 4, 20
	task = b.start(cfg)
	b.printed(cfg, "lives")
	if c, ok := task.(driver.OOMCounter); !ok || c.OOMKills() != 1 {
		b.Errorf("it lives on after its child was killed, and nothing counts that")
	}
	if err := task.Stop(b.context(), "SIGTERM", time.Hour); err != nil {
		b.Fatal(err)
	}
	if exit := b.wait(task); exit.OOMKilled || exit.ExitCode != 3 {
		b.Errorf("it was asked to end after its child was killed, and the exit is %+v", exit)
	}
	cfg = b.config(`tail /dev/zero; exit 0`)
	cfg.Attempt, cfg.Resources.MemoryMB = 3, 20
	if exit := b.wait(b.start(cfg)); !exit.Successful() {
		b.Errorf("it went on after its child was killed, and the exit is %+v", exit)
	}
}

func smallMemory(b *bench) {
	cfg := b.config(`echo fine`)
	cfg.Resources.MemoryMB = 10
	task := b.start(cfg)
	if exit := b.wait(task); !exit.Successful() {
		b.Errorf("exit %+v", exit)
	}
	if out := b.output(cfg, "stdout"); out != "fine\n" {
		b.Errorf("output %q", out)
	}
}

func otherUser(b *bench) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		b.Skip("the machine has no user nobody")
	}
	cfg := b.config(
		`id -u; id -g; touch local/mine && echo wrote; grep -i capeff /proc/self/status; echo "$USER $HOME"`)
	cfg.User = "nobody"
	task := b.start(cfg)
	b.wait(task)
	lines := strings.Split(b.output(cfg, "stdout"), "\n")
	if len(lines) < 5 || lines[4] != "nobody "+nobody.HomeDir || lines[0] != nobody.Uid || lines[1] != nobody.Gid ||
		lines[2] != "wrote" || !strings.HasSuffix(lines[3], "0000000000000000") {
		b.Errorf("output %q, stderr %q", lines, b.output(cfg, "stderr"))
	}
	b.stop(task)
	cfg = b.config(`id -u; id -g; id -G`)
	cfg.User, cfg.Attempt = "4321:8765", 2
	if err := os.Remove(filepath.Join(cfg.Logs.Dir, "web.stdout.0")); err != nil {
		b.Fatal(err)
	}
	b.wait(b.start(cfg))
	if out := b.output(cfg, "stdout"); out != "4321\n8765\n8765\n" {
		b.Errorf("output %q", out)
	}
}

func usage(b *bench) {
	cfg := b.config(
		`x=$(head -c 3000000 /dev/zero | tr '\0' x); i=0; while test $i -lt 20000; do i=$((i+1)); done; echo ready; sleep 1000`)
	task := b.start(cfg)
	b.printed(cfg, "ready")
	var s driver.Stats
	defer func() {
		if b.Failed() {
			b.Logf("usage %+v", s)
		}
	}()
	// The shell may not have begun its sleep yet, and what the kernel counts is read one after the other.
	b.eventually("usage is accounted", func() bool {
		var err error
		if s, err = task.Stats(b.context()); err != nil {
			b.Fatal(err)
		}
		return s.PIDs == 2 && s.CPUNanos > 0 && s.UserNanos+s.SystemNanos > 0 && s.MemoryRSS > 2<<20 &&
			s.MemoryUsage >= s.MemoryRSS && s.MemoryMax >= s.MemoryUsage
	})
	if time.Since(s.Time) > time.Minute {
		b.Errorf("usage is of %s", s.Time)
	}
}
