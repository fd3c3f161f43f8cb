package shim_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/client/allocdir"
	"berth/internal/port/driver"
	"berth/internal/port/driver/rawexec"
)

// Given a directory of the agent's that root alone may enter, with two allocs and a mount in it, when a task of driver
// raw_exec runs there as another user, then it reaches all directories of its own alloc at their paths, and so does a
// command beside it; nothing else of the agent's directory is there for it, no mode was widened, and the node's mount
// table is as before.
func TestATaskOfAnotherUserReachesItsOwnDirectoriesAlone(t *testing.T) {
	data := tempDir(t) // 0700
	own, other := allocdir.New(filepath.Join(data, "alloc"), ids.Alloc(ids.New())),
		allocdir.New(filepath.Join(data, "alloc"), ids.Alloc(ids.New()))
	for _, d := range []allocdir.Dir{own, other} {
		if err := d.Build(); err != nil {
			t.Fatal(err)
		}
		if err := d.BuildTask("web", "nobody"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.DropSecrets(); err != nil {
				t.Error(err)
			}
		})
	}
	volume := filepath.Join(data, "volume of another")
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	mustMount(t, "tmpfs", volume, "tmpfs", 0)
	before := mounts(t, data)
	d := rawexec.New(rawexec.Config{Enabled: true, DataDir: data}, newLauncher(t))
	task, err := d.Start(short(t), &driver.TaskConfig{
		Alloc:   ids.Alloc(ids.New()),
		Task:    "web",
		Attempt: 1,
		User:    "nobody",
		Config: map[string]any{
			"command": "/bin/sh",
			"args":    []any{"-c", "echo begun > local/begun; exec sleep 1000"},
		},
		Resources: driver.Resources{CPUShares: 100, MemoryMB: 64},
		Logs:      driver.LogConfig{Dir: own.LogDir(), MaxFiles: 1, MaxBytes: 1 << 20},
		AllocDir:  own.SharedDir(),
		TaskDir:   own.TaskDir("web"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := task.Stop(short(t), "", 0); err != nil {
			t.Error(err)
		}
		if left := mounts(t, data); len(left) > len(before) {
			t.Errorf("the node has more mounts: %v", left)
		}
	})
	sh := func(command string) string {
		t.Helper()
		var out bytes.Buffer
		if _, err := task.Exec(short(t), driver.ExecRequest{
			Command: []string{"/bin/sh", "-c", command},
			Stdout:  &out,
			Stderr:  &out,
		}); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	for _, c := range []struct{ command, want string }{
		{"id -un; pwd", "nobody\n" + own.TaskDir("web")},
		{"until test -e local/begun; do sleep 0.01; done; cat $PWD/local/begun", "begun"},
		{"for d in local secrets tmp ../alloc ../alloc/data ../alloc/tmp; do echo x > $(realpath $d)/x; done", ""},
		{"(echo x > ../alloc/logs/x) 2>/dev/null || echo refused", "refused"},
		{"mv ../alloc/logs ../alloc/mine 2>/dev/null || echo refused", "refused"},
		{"ls " + data + "; ls " + data + "/alloc", "alloc\n" + filepath.Base(own.Path())},
		{"ls " + other.Path() + " 2>&1 | grep -c 'No such'", "1"},
		{"ls ../../" + filepath.Base(other.Path()) + " 2>&1 | grep -c 'No such'", "1"},
		{"touch " + data + "/x 2>/dev/null || echo refused", "refused"},
		{"grep -c 'another\\|" + filepath.Base(other.Path()) + "' /proc/self/mountinfo", "0"},
	} {
		if got := sh(c.command); got != c.want {
			t.Errorf("%s: %q, want %q", c.command, got, c.want)
		}
	}
	if st, err := os.Stat(data); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the agent's directory has mode %v, %v", st.Mode(), err)
	}
	if now := mounts(t, data); strings.Join(now, "") != strings.Join(before, "") {
		t.Errorf("the node's mounts were %v and are %v", before, now)
	}
	for _, path := range []string{"alloc/x", "alloc/data/x", "alloc/tmp/x", "web/local/x", "web/secrets/x",
		"web/tmp/x"} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(own.Path(), path), &st); err != nil || st.Uid == 0 {
			t.Errorf("%s on the node: owner %d, %v", path, st.Uid, err)
		}
	}
}

// Given directories above the agent's that do not let everybody pass, then the refusal says which and what to do.
func TestATaskThatMayNotPassToItsDirectorySaysSo(t *testing.T) {
	above := tempDir(t)
	data := filepath.Join(above, "data")
	own := allocdir.New(filepath.Join(data, "alloc"), ids.Alloc(ids.New()))
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := own.Build(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(own.TaskDir("web"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := rawexec.New(rawexec.Config{Enabled: true, DataDir: data}, newLauncher(t))
	_, err := d.Start(short(t), &driver.TaskConfig{
		Alloc:    ids.Alloc(ids.New()),
		Task:     "web",
		Attempt:  1,
		User:     "nobody",
		Config:   map[string]any{"command": "/bin/true"},
		Logs:     driver.LogConfig{Dir: own.LogDir(), MaxFiles: 1, MaxBytes: 1 << 20},
		AllocDir: own.SharedDir(),
		TaskDir:  own.TaskDir("web"),
	})
	if err == nil || !strings.Contains(err.Error(), own.TaskDir("web")) || !strings.Contains(err.Error(), "chmod o+x") {
		t.Errorf("it says %v", err)
	}
}
