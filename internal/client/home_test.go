package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/client"
	"berth/internal/model/alloc"
	"berth/internal/port/kv"
)

// TestACopyOfALivingNodesDirectoryIsRefused: given a copy of a node's directory, while its agent runs or something of
// it is mounted, no agent starts on the copy, which would reach the plugins of the original; else it is at home there.
func TestACopyOfALivingNodesDirectoryIsRefused(t *testing.T) {
	r := newRig(t)
	r.start().stop()
	clone := filepath.Join(t.TempDir(), "clone")
	if err := os.CopyFS(clone, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	begins := func() error {
		c, err := client.New(t.Context(), client.Config{DataDir: clone, Servers: r.calls})
		if err == nil {
			c.Close()
		}
		return err
	}
	refused := func(why string) {
		t.Helper()
		err := begins()
		if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), why) ||
			!strings.Contains(err.Error(), r.dir) {
			t.Errorf("%v, want a refusal because %s", err, why)
		}
	}
	lock, err := kv.LockDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	refused("its agent runs")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(r.dir, "alloc")
	if err := os.MkdirAll(mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", mounted, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	refused("something of it is mounted at " + mounted)
	if err := unix.Unmount(mounted, 0); err != nil {
		t.Fatal(err)
	}
	if err := begins(); err != nil {
		t.Errorf("nothing of the original lives, and yet: %v", err)
	}
	if lock, err = kv.LockDir(r.dir); err != nil {
		t.Fatal(err)
	}
	if err := begins(); err != nil {
		t.Errorf("it is at home there now, and yet: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// TestADirectoryInThePlaceOfThatOfLivingTasksIsRefused: given a task that runs, when the agent's directory was moved
// away and a copy, with its store or without it, put in its place, then no agent starts on that and the task lives;
// when the directory is back, the agent goes on with it.
func TestADirectoryInThePlaceOfThatOfLivingTasksIsRefused(t *testing.T) {
	r := realRig(t)
	first := r.start()
	a := r.servers.place(service(shell("web", "raw_exec", "exec sleep 987654")))
	eventually(t, "it runs", func() bool { return r.servers.status(a) == alloc.ClientRunning })
	held := r.shims.Look(t.Context(), a)
	first.stop()
	away := r.dir + ".away"
	if err := os.Rename(r.dir, away); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{"alloc", "client"} {
		if out, err := exec.Command("cp", "-a", "--one-file-system", away, r.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := os.RemoveAll(filepath.Join(r.dir, lost)); err != nil {
			t.Fatal(err)
		}
		cfg := client.Config{DataDir: r.dir, Servers: r.calls, Drivers: r.drivers}
		r.tune(&cfg)
		c, err := client.New(t.Context(), cfg)
		if err == nil {
			c.Close()
		}
		for _, text := range []string{"put in the place of another one", string(a), "mv " + away + " " + r.dir} {
			if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), text) {
				t.Errorf("without %s: %v, want a refusal that says %q", lost, err, text)
			}
		}
		if err := os.RemoveAll(r.dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(away, r.dir); err != nil {
		t.Fatal(err)
	}
	second := r.start()
	eventually(t, "the node follows it again", func() bool { return second.Known(a) })
	if now := r.shims.Look(t.Context(), a); len(held.Tasks) != 1 || len(now.Tasks) != 1 ||
		now.Tasks[0].PID != held.Tasks[0].PID || now.Tasks[0].Ended {
		t.Errorf("it was %+v, and is %+v", held.Tasks, now.Tasks)
	}
	r.servers.stop(a)
	eventually(t, "it stops", func() bool { return r.servers.status(a) == alloc.ClientComplete })
}
