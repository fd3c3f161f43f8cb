package localcsi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/testkit/mountns"
	"berth/internal/testkit/powerloss"
)

const ownProcessEnv = "LOCALCSI_TEST_OWN_PROCESS"

// inOwnProcess runs a test in a process that has a mount namespace of its own: what the test starts in yet another one
// copies no mount of the tests beside it. It reports whether this is that process.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownProcessEnv) == t.Name() {
		return true
	}
	t.Parallel()
	runTestInChild(t, t.Name(), ownProcessEnv+"="+t.Name(), mountns.Fresh)
	return false
}

// runTestInChild runs one test of this binary in a process of its own.
func runTestInChild(t *testing.T, name string, env ...string) {
	t.Helper()
	needRoot(t)
	left := 5 * time.Minute
	if end, ok := t.Deadline(); ok {
		left = time.Until(end)
	}
	args := append([]string{
		"-test.run=^" + name + "$",
		"-test.timeout=" + left.String(),
		"-test.v=" + strconv.FormatBool(testing.Verbose()),
	}, powerloss.Flags()...)
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", env, err, out)
	}
	t.Logf("%s", out)
}

const childEnv = "LOCALCSI_TEST_CHILD"

// order is the configuration of a plugin in a process of its own.
type order struct {
	Endpoint, DataDir string
	Attach            bool
	KillAt            string // the name of a step
	KillOn            int    // which time it is reached, from 1
	Trace             string // file to which the names of steps are appended
	Verbose           bool
}

func runChild(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	var mu sync.Mutex
	seen := 0
	log := slog.New(slog.DiscardHandler)
	if o.Verbose {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return Run(context.Background(), Config{
		Endpoint: o.Endpoint,
		DataDir:  o.DataDir,
		NodeID:   testNode,
		Attach:   o.Attach,
		Log:      log,
		step: func(name string) {
			mu.Lock()
			defer mu.Unlock()
			if o.Trace != "" {
				appendLine(o.Trace, name)
			}
			if name == o.KillAt {
				if seen++; seen == o.KillOn {
					_ = unix.Kill(os.Getpid(), unix.SIGKILL)
					select {}
				}
			}
		},
	})
}

func appendLine(path, line string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
		f.Close()
	}
	if err != nil {
		panic(err)
	}
}

// childEnv has this program become the plugin.
func (w *world) childEnv(o order) []string {
	w.t.Helper()
	o.Endpoint = w.cfg.Endpoint
	o.DataDir = w.cfg.DataDir
	o.Attach = w.cfg.Attach
	o.Verbose = testing.Verbose()
	text, err := json.Marshal(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return append(os.Environ(), childEnv+"="+string(text))
}

// spawn starts the plugin in a process of its own, in a mount namespace of its own if asked.
func (w *world) spawn(o order, ownMounts bool) *exec.Cmd {
	w.t.Helper()
	_ = os.Remove(w.socket())
	cmd := exec.Command(os.Args[0])
	cmd.Env = w.childEnv(o)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if ownMounts {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	return cmd
}
