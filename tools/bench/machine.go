package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/api"
	"berth/internal/testkit/freeport"
)

// agent is a running development agent in a directory of its own.
type agent struct {
	address string
	api     *api.Client
	cmd     *exec.Cmd
	dir     string
	log     bytes.Buffer
}

// start runs the program; it does not wait for anything.
func start(binary string) (*agent, error) { return startWith(binary, "") }

// startWith runs the program with a configuration file.
func startWith(binary, config string) (*agent, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	a := &agent{address: fmt.Sprintf("http://127.0.0.1:%d", port)}
	if a.api, err = api.NewClient(api.Config{Address: a.address}); err != nil {
		return nil, err
	}
	if a.dir, err = os.MkdirTemp("", "berth-bench-"); err != nil {
		return nil, err
	}
	file := filepath.Join(a.dir, "agent.hcl")
	// Tasks of users other than the agent's pass through the directory.
	if err := errors.Join(os.Chmod(a.dir, 0o711), os.WriteFile(file, []byte(config), 0o600)); err != nil {
		return nil, err
	}
	a.cmd = exec.Command(binary, "agent", "-dev", "-config", file, "-http-port", strconv.Itoa(port), "-data-dir",
		filepath.Join(a.dir, "d"))
	a.cmd.Stdout, a.cmd.Stderr = &a.log, &a.log
	return a, a.cmd.Start()
}

// stop ends the agent and its tasks and removes the directory.
func (a *agent) stop() error {
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := a.cmd.Wait(); err != nil {
		return fmt.Errorf("the agent ended badly: %w\n%s", err, a.log.String())
	}
	return errors.Join(a.unmount(), os.RemoveAll(a.dir))
}

// unmount takes away what stays mounted in the directory of an agent that has ended: disks of allocs that it would find
// again.
func (a *agent) unmount() error {
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], a.dir+"/") {
			errs = append(errs, syscall.Unmount(fields[1], 0))
		}
	}
	return errors.Join(errs...)
}

// until tries until fn succeeds.
func until(ctx context.Context, what string, fn func() error) error {
	deadline := time.Now().Add(60 * time.Second)
	for {
		err := fn()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not after a minute: %w", what, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// nodeReady succeeds when the agent's node takes work.
func (a *agent) nodeReady(ctx context.Context) error {
	nodes, _, err := a.api.Nodes().List(ctx, nil)
	switch {
	case err != nil:
		return err
	case len(nodes) != 1 || nodes[0].Status != "ready":
		return errors.New("the node is not ready")
	}
	return nil
}

// memory reads a member of a process's smaps_rollup or status, in kB.
func memory(pid int, file, member string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, member+":"); ok {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d/%s has no %s", pid, file, member)
}

// shims are the processes of this agent that hold tasks.
func (a *agent) shims() ([]int, error) {
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, p := range procs {
		text, err := os.ReadFile(p)
		if err != nil || !bytes.HasPrefix(text, []byte("berth-shim\x00")) || !bytes.Contains(text, []byte(a.dir)) {
			continue // others', or gone meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		if err != nil {
			return nil, err
		}
		out = append(out, pid)
	}
	return out, nil
}

// written is what the Raft log wrote so far.
type written struct {
	entries, fsyncs float64
	commands        map[string]string // by name, how many
}

// counters reads what the Raft log wrote so far.
func (a *agent) counters(ctx context.Context) (w written, err error) {
	self, err := a.api.Cluster().Self(ctx)
	if err != nil {
		return w, err
	}
	stats := self.Stats["raft_log"]
	if w.entries, err = strconv.ParseFloat(stats["entries"], 64); err != nil {
		return w, err
	}
	w.fsyncs, err = strconv.ParseFloat(stats["fsyncs"], 64)
	w.commands = self.Stats["raft_commands"]
	return w, err
}

// since names what was written after an earlier reading.
func (w written) since(before written) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.commands)) {
		if n := w.commands[name]; n != before.commands[name] {
			names = append(names, fmt.Sprintf("%s %s → %s", name, cmp.Or(before.commands[name], "0"), n))
		}
	}
	return strings.Join(names, ", ")
}

// describe names the machine.
func describe() string {
	model := "unknown processor"
	mem := "unknown memory"
	kernel := "unknown kernel"
	load := "unknown"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		fields := strings.Fields(string(text))
		if kb, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			mem = fmt.Sprintf("%.0f GiB", float64(kb)/(1<<20))
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Fields(string(text))[0]
	}
	return fmt.Sprintf("%s, %d cores, %s, Linux %s, %s; load %s when it began", model, runtime.NumCPU(), mem, kernel,
		runtime.Version(), load)
}
