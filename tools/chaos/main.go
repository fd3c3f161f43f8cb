// Command chaos runs the real program in a directory and a mount namespace of its own, gives it stateful jobs, and
// plays rounds of faults and of what people do, drawn by a seed: kills of the agent, of shims, of the storage plugin
// and of tasks, and orders to jobs, volumes, snapshots and clones while that happens. After each round everything must
// come to be as it was ordered; no acknowledged line may be lost, no two writers may have an exclusive volume, and at
// the end nothing may be left. It needs root and bin/berth; `make chaos` builds that first. Nothing imports it.
//
// The same program is what its jobs run: "chaos write" keeps a file on a volume, "chaos check" reads one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/tools/chaos/task"
)

// options are what one run is asked for.
type options struct {
	seed   uint64
	rounds int           // how many at most
	length time.Duration // no round begins after it; 0: no bound
	settle time.Duration // how long a round may take to come to rest; see also busy
	busy   time.Duration // instead, how long it may take as long as everything that is waited for changes
	binary string
	keep   bool
}

func main() {
	if len(os.Args) > 1 && (os.Args[1] == "write" || os.Args[1] == "check") {
		os.Exit(task.Main(os.Args[1], os.Args[2:]))
	}
	var o options
	flag.Uint64Var(&o.seed, "seed", 0, "what is played; 0: another one each time")
	flag.IntVar(&o.rounds, "rounds", 50, "rounds at most")
	flag.DurationVar(&o.length, "for", 0, "begin no round after this time")
	flag.DurationVar(&o.settle, "settle", 40*time.Second, "how long a round may take to come to rest")
	flag.DurationVar(&o.busy, "busy", 0, "on a machine with other work: a round may take so long, as long as nothing "+
		"that is waited for stays as it is for the time of -settle")
	flag.StringVar(&o.binary, "binary", "bin/berth", "the program")
	flag.BoolVar(&o.keep, "keep", false, "keep the directory of a run that failed")
	flag.Parse()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := apart(ctx)
	if code < 0 && err == nil {
		err = run(ctx, o)
		code = 0
	}
	if err != nil {
		fmt.Printf("chaos: FAILED: %v\nchaos: repeat it with: make chaos SEED=%d ROUNDS=%d SETTLE=%s\n", err, o.seed,
			o.rounds, o.settle)
		code = 1
	}
	os.Exit(code)
}

// inside marks the run that has a mount namespace of its own.
const inside = "BERTH_CHAOS_INSIDE"

// apart runs this program again in a mount namespace and a process group of its own: other programs of the machine that
// copy their mounts must not hold those of this run, and nothing that ends here must end them. It returns -1 in there.
func apart(ctx context.Context) (int, error) {
	if os.Getenv(inside) != "" {
		return -1, nil
	}
	if os.Geteuid() != 0 {
		return 1, errors.New("volumes are mounted: run it as root")
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Unshareflags: syscall.CLONE_NEWNS}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it cleans up
	cmd.WaitDelay = 2 * time.Minute
	err = cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return max(ended.ExitCode(), 1), nil // it has said why
	}
	return 0, err
}

// leaveOthers unmounts, in the mount namespace of this run alone, what came into it with the copy: a volume of another
// agent on this machine could not be released as long as it is mounted here.
func leaveOthers() error {
	mounts, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		system := i.Mountpoint == "/" || strings.HasPrefix(i.Mountpoint, "/snap/")
		return system || !strings.HasPrefix(i.Source, "/dev/loop"), false
	})
	if err != nil {
		return err
	}
	slices.Reverse(mounts)
	for _, mount := range mounts {
		if strings.Contains(mount.Optional, "shared:") {
			return fmt.Errorf("%s is shared with other mount namespaces: the one of this run is not its own",
				mount.Mountpoint)
		}
		if err := unix.Unmount(mount.Mountpoint, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s in the mount namespace of this run: %w", mount.Mountpoint, err)
		}
	}
	return nil
}

func run(ctx context.Context, o options) (err error) {
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return err
	}
	if _, err := os.Stat(o.binary); err != nil {
		return fmt.Errorf("there is no program to try (make build): %w", err)
	}
	if err := leaveOthers(); err != nil {
		return err
	}
	m, err := newMachine(o)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			m.tellAgentsEnd()
		}
		err = errors.Join(err, m.discard(err != nil && o.keep))
	}()
	p := newPlay(m, o)
	defer p.end()
	say("seed %d, at most %d rounds, directory %s", o.seed, o.rounds, m.root)
	if err := p.prologue(ctx); err != nil {
		return err
	}
	played := 0
	for begun := time.Now(); played < o.rounds && ctx.Err() == nil; played++ {
		if o.length > 0 && time.Since(begun) > o.length {
			break
		}
		if err := p.round(ctx, played+1); err != nil {
			return fmt.Errorf("round %d: %w", played+1, err)
		}
	}
	if err := p.epilogue(ctx); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	say("all is well: seed %d, %d rounds, %d actions, %d lines acknowledged, slowest round came to rest in %s", o.seed,
		played, p.actions, p.lines(), p.slowest.Round(time.Millisecond))
	return ctx.Err()
}

// say prints what happens, with the time.
func say(format string, args ...any) {
	fmt.Printf("%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}
