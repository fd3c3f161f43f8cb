package e2e

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/conformance/csi/csitest"
)

// demoCluster is the demo of several machines, which makes what it needs beneath a directory of the test.
func demoCluster(t *testing.T) (*exec.Cmd, string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "b")
	must(t, err)
	t.Cleanup(func() { must(t, sweep(dir)) })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "../scripts/demo-cluster.sh")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it takes away what it has made
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "BERTH_CSI_PROXY="+csitest.Binary(t), "TMPDIR="+dir)
	return cmd, dir
}

// TestDemoCluster runs what a newcomer runs who wants to see several machines.
func TestDemoCluster(t *testing.T) {
	cmd, dir := demoCluster(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	nothingOf(t, dir, nil)
}

// TestDemoClusterIsInterrupted: given the demo of several machines with a database that runs, when it is interrupted,
// then it says so, and nothing of it is left: no process, mount, loop device, control group or file.
func TestDemoClusterIsInterrupted(t *testing.T) {
	cmd, dir := demoCluster(t)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var said strings.Builder
	cmd.Stderr = &said
	must(t, cmd.Start())
	var allocs []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Write 1000 keys") {
			allocs, err = filepath.Glob(filepath.Join(dir, "demo-*/?/data/alloc/*-*"))
			must(t, err)
			must(t, cmd.Process.Signal(os.Interrupt))
			break
		}
	}
	if len(allocs) < 2 {
		t.Errorf("a plugin and a database should run: %v", allocs)
	}
	_, err = io.Copy(io.Discard, out)
	must(t, err)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("it ends with %v", err)
	}
	if !strings.Contains(said.String(), "what it had made is taken away") {
		t.Errorf("it says %q", said.String())
	}
	nothingOf(t, dir, allocs)
}

// nothingOf wants nothing left of what was beneath a directory, nor a control group of these allocations.
func nothingOf(t *testing.T, dir string, allocs []string) {
	t.Helper()
	for _, p := range processesOf(dir) {
		t.Errorf("left behind: %s", p)
	}
	for dev, file := range loopDevices(dir) {
		t.Errorf("left behind: loop device %s on %s", dev, file)
	}
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range files {
		t.Errorf("left behind: %s", f.Name())
	}
	must(t, filepath.WalkDir("/sys/fs/cgroup", func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while we looked
		}
		for _, a := range allocs {
			if strings.Contains(path, filepath.Base(a)) {
				t.Errorf("left behind: control group %s", path)
			}
		}
		return err
	}))
}
