package shim_test

import (
	"bytes"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/devices"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/privilege"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
)

// isolated starts a task with driver exec, and returns it with a way to run commands in it.
func isolated(
	t *testing.T, cfg exec.Config, change func(*driver.TaskConfig),
) (driver.Task, *driver.TaskConfig, func(command string) string) {
	t.Helper()
	tc := drivertest.Config(t, tempDir(t), ids.Alloc(ids.New()), "web", "exec sleep 1000")
	if change != nil {
		change(tc)
	}
	task, err := exec.New(cfg, newLauncher(t)).Start(short(t), tc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := task.Stop(short(t), "", 0); err != nil {
			t.Error(err)
		}
	})
	return task, tc, func(command string) string {
		t.Helper()
		var out bytes.Buffer
		if _, err := task.Exec(short(t),
			driver.ExecRequest{Command: []string{"/bin/sh", "-c", command}, Stdout: &out, Stderr: &out}); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
}

// tempDir has a short path without marks of the test in it.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "alloc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestAnIsolatedTaskSeesItsOwnRoot(t *testing.T) {
	_, tc, sh := isolated(t, exec.Config{}, nil)
	for _, c := range []struct {
		command string
		want    string
	}{
		{
			"ls /dev | tr '\\n' ' '",
			"core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero",
		},
		{"cat /proc/1/comm", "berth-init"},
		{"ls /boot /home/* /root/* 2>&1 | grep -c No", "3"},
		{
			"touch /usr/x 2>&1; touch /etc/x 2>&1",
			"touch: cannot touch '/usr/x': Read-only file system\n" +
				"touch: cannot touch '/etc/x': Read-only file system",
		},
		{"ls /sys/firmware | wc -l", "0"},
		{"touch /sys/kernel/x 2>&1 | grep -c -e Read-only -e denied", "1"},
		{"(echo 1 > /proc/sys/vm/swappiness) 2>/dev/null || echo refused", "refused"},
		{"touch /alloc/logs/x 2>/dev/null || echo refused", "refused"},
		{"echo a > /alloc/data/a && echo b > /local/b && echo c > /secrets/c && echo d > /tmp/d && echo e > /run/e " +
			"&& echo ok", "ok"},
		{"mount -t tmpfs none /mnt 2>/dev/null || echo refused", "refused"},
		{"mknod /tmp/disk b 254 0 2>/dev/null || echo refused", "refused"},
		{"grep NoNewPrivs /proc/self/status | tr -d '\\t'", "NoNewPrivs:1"},
		{"grep CapBnd /proc/self/status | cut -f2", bounding()},
		{"for p in /proc/[0-9]*; do grep -q sleep $p/comm && grep Seccomp: $p/status | tr -d '\\t'; done", "Seccomp:2"},
		{"cut -d: -f3 /proc/self/cgroup | sort -u", "/"},
		{"cut -d: -f3 /proc/1/cgroup | grep -c -E 'berth|alloc'", "0"},
		{"cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max",
			strconv.Itoa(driver.DefaultPIDs)},
		{"cat /etc/shadow 2>&1 | grep -c 'No such'", "1"},
		{"grep -c ^root: /etc/passwd; test -s /etc/group && test -s /etc/hosts && test -d /etc/ssl/certs && echo ok",
			"1\nok"},
		{"ulimit -n", ulimit(t)},
		{"test -e /sys/fs/cgroup/memory/memory.limit_in_bytes -o -e /sys/fs/cgroup/memory.max && echo shown", "shown"},
		{"cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max",
			strconv.Itoa(64 << 20)},
	} {
		if got := sh(c.command); got != c.want {
			t.Errorf("%s: %q, want %q", c.command, got, c.want)
		}
	}
	for path, want := range map[string]string{"alloc/data/a": "a\n", "web/local/b": "b\n", "web/secrets/c": "c\n",
		"web/tmp/d": "d\n"} {
		got, err := os.ReadFile(filepath.Join(filepath.Dir(tc.AllocDir), path))
		if err != nil || string(got) != want {
			t.Errorf("%s on the node: %q, %v", path, got, err)
		}
	}
	if pids := strings.Fields(sh("ls -d /proc/[0-9]*")); len(pids) > 6 {
		t.Errorf("the task sees processes of others: %v", pids)
	}
	for _, ns := range []string{"mnt", "pid", "ipc", "uts"} {
		ours, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		if theirs := sh("readlink /proc/self/ns/" + ns); theirs == ours {
			t.Errorf("the task shares the %s namespace of the node", ns)
		}
	}
}

// Given a task, then its mount table names the directory of its alloc on the node, which nothing hides; neither that
// path, nor any above it, nor a device that is named there leads anywhere from it, and of other allocs it names none.
func TestWhatItsMountsNameATaskCannotReach(t *testing.T) {
	own := tempDir(t)
	base := filepath.Join(own, "alloc-of-the-task") // beside which others would lie
	for _, dir := range []string{base, filepath.Join(own, "another")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, _, sh := isolated(t, exec.Config{}, func(tc *driver.TaskConfig) {
		*tc = *drivertest.Config(t, base, ids.Alloc(ids.New()), "web", "exec sleep 1000")
	})
	named := "awk '{ print $4 }' /proc/self/mountinfo | grep " + filepath.Base(base)
	if got := sh(named + " | wc -l"); got == "0" {
		t.Fatal("the mounts do not name the alloc's directory any more: then docs/security.md need not say so")
	}
	devices := "awk '{ for (i = 1; $i != \"-\"; i++); print $(i+2) }' /proc/self/mountinfo | grep ^/dev/ | sort -u"
	for command, want := range map[string]string{
		"for p in $(" + named + "); do test -e $p && echo $p; done":                "",
		"for p in " + base + " " + own + "; do test -e $p && echo $p; done":        "",
		"for d in $(" + devices + "); do test -e $d && echo $d; done":              "",
		"grep -c another /proc/self/mountinfo":                                     "0",
		"for p in /proc/1/root /proc/1/cwd; do ls $p" + own + " 2>/dev/null; done": "",
	} {
		if got := sh(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// bounding is the mask of the default capabilities.
func bounding() string {
	var mask uint64
	for _, c := range exec.DefaultCapabilities {
		mask |= 1 << slices.Index(exec.AllCapabilities, c)
	}
	text := strconv.FormatUint(mask, 16)
	return strings.Repeat("0", 16-len(text)) + text
}

func ulimit(t *testing.T) string {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	return strconv.FormatUint(min(l.Max, 65536), 10)
}

// A task that asks for no number of processes has one all the same, and who asks for fewer cannot fork for ever.
func TestATaskThatForksForEverEndsAtItsLimit(t *testing.T) {
	task, _, sh := isolated(t, exec.Config{}, func(tc *driver.TaskConfig) { tc.Resources.PIDs = 16 })
	if got := sh("for i in $(seq 40); do sleep 1000 & done"); !strings.Contains(strings.ToLower(got), "fork") {
		t.Errorf("forty processes: %q", got)
	}
	stats, err := task.Stats(short(t))
	if err != nil {
		t.Fatal(err)
	}
	if stats.PIDs > 16 {
		t.Errorf("%d processes, the limit is 16", stats.PIDs)
	}
}

// What the node renames over a file, as passwd does, or makes later, is not seen by tasks that run.
func TestWhatTheNodeChangesInItsEtcIsNotUncovered(t *testing.T) {
	copied := tempDir(t)
	tool(t, "cp", "-a", "/etc/.", copied)
	mustMount(t, copied, "/etc", "", unix.MS_BIND)
	_, _, sh := isolated(t, exec.Config{ShowEtc: []string{"app/shown.conf"}}, nil)
	for _, name := range []string{"shadow", "passwd", "berth/agent.hcl", "wireguard/wg0.conf", "app/shown.conf",
		"app/other.conf"} {
		file := filepath.Join("/etc", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file+"+", []byte("root:CANARY\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+"+", file); err != nil {
			t.Fatal(err)
		}
	}
	if got := sh("grep -r CANARY /etc 2>/dev/null"); got != "" {
		t.Errorf("the task reads %s", got)
	}
	_, _, sh = isolated(t, exec.Config{ShowEtc: []string{"app/shown.conf"}}, nil)
	got := sh("grep -rl CANARY /etc 2>/dev/null | sort | tr '\\n' ' '; touch /etc/x 2>/dev/null || echo refused")
	if got != "/etc/app/shown.conf /etc/passwd refused" {
		t.Errorf("a task that is started later sees %s", got)
	}
}

func TestOrphansOfATaskAreReaped(t *testing.T) {
	_, _, sh := isolated(t, exec.Config{}, nil)
	if got := sh(
		"(sh -c 'exit 0' &); (setsid true &); sleep 0.2; grep -l 'State:.Z' /proc/[0-9]*/status 2>/dev/null | wc " +
			"-l"); got != "0" {
		t.Errorf("%s zombies", got)
	}
}

func TestMountsOfAJobReachTheTask(t *testing.T) {
	outside := tempDir(t)
	if err := os.Chmod(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, sh := isolated(t, exec.Config{}, func(tc *driver.TaskConfig) {
		tc.Mounts = []driver.Mount{
			{Source: outside, Target: "/data/deep"},
			{Source: outside, Target: "/srv/ro", ReadOnly: true},
			{Source: filepath.Join(outside, "file"), Target: "/etc-like/one.conf", ReadOnly: true},
			{Source: outside, Target: "/local/below"},
		}
		tc.Devices = []driver.Device{{HostPath: "/dev/full", TaskPath: "/dev/special/full"}}
	})
	for _, c := range []struct {
		command string
		want    string
	}{
		{"cat /data/deep/file; echo; cat /srv/ro/file; echo; cat /etc-like/one.conf; echo; cat /local/below/file",
			"content\ncontent\ncontent\ncontent"},
		{"echo new > /data/deep/new && cat /srv/ro/new", "new"},
		{"touch /srv/ro/x 2>/dev/null || echo refused", "refused"},
		{"(echo x > /etc-like/one.conf) 2>/dev/null || echo refused", "refused"},
		{"echo x > /dev/special/full 2>/dev/null || echo no space left", "no space left"},
	} {
		if got := sh(c.command); got != c.want {
			t.Errorf("%s: %q, want %q", c.command, got, c.want)
		}
	}
}

func TestALinkInATaskDirectoryLeadsNoMountOutOfTheRoot(t *testing.T) {
	victim, source := tempDir(t), tempDir(t)
	_, _, sh := isolated(t, exec.Config{}, func(tc *driver.TaskConfig) {
		if err := os.Symlink(victim, filepath.Join(tc.TaskDir, "local/escape")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../../../../../../.."+victim,
			filepath.Join(tc.TaskDir, "local/relative")); err != nil {
			t.Fatal(err)
		}
		tc.Mounts = []driver.Mount{{Source: source, Target: "/data"}}
	})
	if got := sh("ls " + victim + " 2>&1 | grep -c 'No such'"); got != "1" {
		t.Errorf("the node's directory is visible: %s", got)
	}
	l := newLauncher(t)
	for _, target := range []string{"/local/escape/x", "/local/relative/x"} {
		tc := drivertest.Config(t, tempDir(t), ids.Alloc(ids.New()), "web", "exec sleep 1000")
		if err := os.Symlink(victim, filepath.Join(tc.TaskDir, "local/escape")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../../../../../../.."+victim,
			filepath.Join(tc.TaskDir, "local/relative")); err != nil {
			t.Fatal(err)
		}
		tc.Mounts = []driver.Mount{{Source: source, Target: target}}
		task, err := exec.New(exec.Config{}, l).Start(short(t), tc)
		if err == nil {
			if err := task.Stop(short(t), "", 0); err != nil {
				t.Error(err)
			}
		}
		if entries, err := os.ReadDir(victim); err != nil || len(entries) > 0 {
			t.Errorf("%s: something was made on the node: %v, %v", target, entries, err)
		}
	}
}

func TestRefusalsOfAnIsolatedTaskNameTheReason(t *testing.T) {
	private := tempDir(t)
	mustMount(t, "tmpfs", private, "tmpfs", 0)
	mustMount(t, "", private, "", unix.MS_PRIVATE)
	for name, c := range map[string]struct {
		kind   fault.Kind
		text   string
		change func(*driver.TaskConfig)
	}{
		"missing source": {fault.Invalid, `"/no/such/volume"`, func(c *driver.TaskConfig) {
			c.Mounts = []driver.Mount{{Source: "/no/such/volume", Target: "/v"}}
		}},
		"link as source": {fault.Invalid, "symbolic link", func(c *driver.TaskConfig) {
			c.Mounts = []driver.Mount{{Source: "/proc/self", Target: "/v"}}
		}},
		"target in /proc": {fault.Invalid, `"/proc/x"`, func(c *driver.TaskConfig) {
			c.Mounts = []driver.Mount{{Source: "/tmp", Target: "/proc/x"}}
		}},
		"target root": {fault.Invalid, `"/local/.."`, func(c *driver.TaskConfig) {
			c.Mounts = []driver.Mount{{Source: "/tmp", Target: "/local/.."}}
		}},
		"target in /usr": {fault.Invalid, `"/usr/no-such-dir"`, func(c *driver.TaskConfig) {
			c.Mounts = []driver.Mount{{Source: "/tmp", Target: "/usr/no-such-dir"}}
		}},
		"not shared": {fault.Conflict, "bidirectional", func(c *driver.TaskConfig) {
			c.Mounts = []driver.Mount{{Source: private, Target: "/v", Propagation: "bidirectional"}}
		}},
		"propagation": {fault.Invalid, `"sideways"`, func(c *driver.TaskConfig) {
			c.Mounts = []driver.Mount{{Source: "/tmp", Target: "/v", Propagation: "sideways"}}
		}},
		"no device": {fault.Invalid, `"/tmp"`, func(c *driver.TaskConfig) {
			c.Devices = []driver.Device{{HostPath: "/tmp"}}
		}},
		"device permissions": {fault.Invalid, `"/dev/full"`, func(c *driver.TaskConfig) {
			c.Devices = []driver.Device{{HostPath: "/dev/full", Permissions: "x"}}
		}},
		"cap_add": {fault.Denied, `"sys_admin"`, func(c *driver.TaskConfig) {
			c.Config["cap_add"] = []any{"CAP_SYS_ADMIN"}
		}},
		"what makes root of nobody": {fault.Denied, `"setuid"`, func(c *driver.TaskConfig) {
			c.User, c.Config["cap_add"] = "nobody", []any{"net_bind_service", "CAP_SETUID"}
		}},
		"unknown cap": {fault.Invalid, `"fly"`, func(c *driver.TaskConfig) {
			c.Config["cap_drop"] = []any{"fly"}
		}},
		"pid_mode": {fault.Invalid, "private or host", func(c *driver.TaskConfig) {
			c.Config["pid_mode"] = "shared"
		}},
		"csi node":          {fault.Denied, "allow_csi_node", func(c *driver.TaskConfig) { c.CSIPluginNode = true }},
		"missing task dirs": {fault.Invalid, "/local", func(c *driver.TaskConfig) { c.TaskDir = "/no/such/dir" }},
	} {
		t.Run(name, func(t *testing.T) {
			tc := drivertest.Config(t, tempDir(t), ids.Alloc(ids.New()), "web", "exec sleep 1000")
			c.change(tc)
			task, err := exec.New(exec.Config{}, newLauncher(t)).Start(short(t), tc)
			if err == nil {
				if err := task.Stop(short(t), "", 0); err != nil {
					t.Error(err)
				}
			}
			if !fault.Has(err, c.kind) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("kind %v, %v", fault.KindOf(err), err)
			}
			if left := cgroups(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestCapabilitiesCanBeAddedAndDropped(t *testing.T) {
	_, _, sh := isolated(t, exec.Config{AllowCaps: []string{"net_raw", "chown"}}, func(tc *driver.TaskConfig) {
		tc.User = "nobody"
		tc.Config["cap_add"], tc.Config["cap_drop"] = []any{"net_raw"}, []any{"all"}
	})
	if got := sh("grep -e CapEff -e CapBnd -e CapAmb /proc/self/status | cut -f2 | sort -u"); got !=
		"0000000000002000" {
		t.Errorf("sets %q", got)
	}
	if got := sh("id -un"); got != "nobody" {
		t.Errorf("user %q", got)
	}
}

func TestHostModes(t *testing.T) {
	_, _, sh := isolated(t, exec.Config{AllowHostPID: true, AllowHostIPC: true}, func(tc *driver.TaskConfig) {
		tc.Config["pid_mode"], tc.Config["ipc_mode"] = "host", "host"
	})
	for _, ns := range []string{"pid", "ipc"} {
		ours, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		if theirs := sh("readlink /proc/self/ns/" + ns); theirs != ours {
			t.Errorf("%s namespace %s, want the node's %s", ns, theirs, ours)
		}
	}
	if got := sh("test -d /proc/" + strconv.Itoa(os.Getpid()) + " && echo seen"); got != "seen" {
		t.Error("the node's processes are not seen")
	}
}

func TestANodePluginMountsForTheNode(t *testing.T) {
	base := tempDir(t)
	mustMount(t, base, base, "", unix.MS_BIND)
	mustMount(t, "", base, "", unix.MS_SHARED)
	_, _, sh := isolated(t, exec.Config{AllowCSINode: true}, func(tc *driver.TaskConfig) {
		tc.CSIPluginNode = true
		tc.Mounts = []driver.Mount{{Source: base, Target: "/local/csi", Propagation: "bidirectional"}}
	})
	if got := sh(
		"mkdir -p /local/csi/v && mount -t tmpfs -o size=64k vol /local/csi/v && echo inside > /local/csi/v/f && " +
			"echo ok"); got != "ok" {
		t.Fatalf("the plugin could not mount: %s", got)
	}
	got, err := os.ReadFile(filepath.Join(base, "v/f"))
	if err != nil || string(got) != "inside\n" {
		t.Errorf("the node does not see the plugin's mount: %q, %v", got, err)
	}
	if err := os.Mkdir(filepath.Join(base, "w"), 0o755); err != nil {
		t.Fatal(err)
	}
	mustMount(t, "tmpfs", filepath.Join(base, "w"), "tmpfs", 0)
	if got := sh("grep -c /local/csi/w /proc/self/mountinfo"); got != "1" {
		t.Errorf("the plugin does not see the node's mount")
	}
	if got := sh("test -b /dev/" + blockDevice(t) + " && grep NoNewPrivs /proc/self/status | tr -d '\\t'"); got !=
		"NoNewPrivs:0" {
		t.Errorf("devices and privileges: %q", got)
	}
	if got := sh("umount /local/csi/v && echo ok"); got != "ok" {
		t.Errorf("the plugin could not unmount: %s", got)
	}
	if _, err := os.Stat(filepath.Join(base, "v/f")); !os.IsNotExist(err) {
		t.Errorf("its unmount did not reach the node: %v", err)
	}
}

// A mount that a plugin made for the node outlives it: a task may be using the volume.
func TestAPluginsMountsOutliveIt(t *testing.T) {
	base := tempDir(t)
	mustMount(t, base, base, "", unix.MS_BIND)
	mustMount(t, "", base, "", unix.MS_SHARED)
	task, _, sh := isolated(t, exec.Config{AllowCSINode: true}, func(tc *driver.TaskConfig) {
		tc.CSIPluginNode = true
		tc.Mounts = []driver.Mount{{Source: base, Target: "/local/csi", Propagation: "bidirectional"}}
	})
	if got := sh(
		"mkdir -p /local/csi/v && mount -t tmpfs -o size=64k vol /local/csi/v && echo inside > /local/csi/v/f && " +
			"echo ok"); got != "ok" {
		t.Fatalf("the plugin could not mount: %s", got)
	}
	if err := task.Stop(short(t), "", 0); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(base, "v/f")); err != nil || string(got) != "inside\n" {
		t.Errorf("the mount is gone with the plugin: %q, %v", got, err)
	}
	if err := unix.Unmount(filepath.Join(base, "v"), 0); err != nil {
		t.Error(err)
	}
}

// The device of a volume is free as soon as Stop has returned and the node has unmounted it: no mount namespace of the
// task holds a clone of the mount, though a daemonised process was inside.
func TestAStoppedTaskHoldsNoVolume(t *testing.T) {
	for _, tool := range []string{"losetup", "mkfs.ext4"} {
		if _, err := osexec.LookPath(tool); err != nil {
			t.Skip("the machine has no " + tool)
		}
	}
	volume, image := tempDir(t), filepath.Join(tempDir(t), "image")
	if err := os.WriteFile(image, make([]byte, 16<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	tool(t, "mkfs.ext4", "-q", image)
	loop := tool(t, "losetup", "--find", "--show", image)
	t.Cleanup(func() { tool(t, "losetup", "--detach", loop) })
	for range 5 {
		if err := unix.Mount(loop, volume, "ext4", 0, ""); err != nil {
			t.Fatal(err)
		}
		task, _, sh := isolated(t, exec.Config{}, func(tc *driver.TaskConfig) {
			tc.Mounts = []driver.Mount{{Source: volume, Target: "/v"}}
		})
		got := sh("(cd /v && setsid sleep 1000 >/dev/null 2>&1 &); echo x > /v/x && echo ok")
		err := task.Stop(short(t), "", 0)
		if got != "ok" || err != nil {
			t.Errorf("writing to the volume: %s; stop: %v", got, err)
		}
		if err := unix.Unmount(volume, 0); err != nil {
			t.Fatalf("unmount on the node: %v", err)
		}
		fd, err := unix.Open(loop, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatalf("the device is still in use: %v", err)
		}
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
}

// TestAnInterpretersNameReachesNothingOfTheShim: between fork and exec a child still has whatever descriptors its
// parent gave it, and the kernel opens a script's interpreter before it closes them. A directory among them would be a
// way out of the task's root.
func TestAnInterpretersNameReachesNothingOfTheShim(t *testing.T) {
	outside := tempDir(t)
	data, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "echo"), data, 0o755); err != nil {
		t.Fatal(err)
	}
	task, tc, _ := isolated(t, exec.Config{}, nil)
	up := strings.Repeat("/..", 20)
	for fd := range 64 {
		script := filepath.Join(tc.TaskDir, "local", "s"+strconv.Itoa(fd))
		line := "#!/proc/self/fd/" + strconv.Itoa(fd) + up + outside + "/echo escaped\n"
		if err := os.WriteFile(script, []byte(line), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, tty := range []bool{false, true} {
			var out bytes.Buffer
			_, err := task.Exec(short(t),
				driver.ExecRequest{
					Command: []string{"/local/s" + strconv.Itoa(fd)},
					TTY:     tty,
					Stdout:  &out,
					Stderr:  &out,
				})
			if err != nil || !strings.HasPrefix(out.String(), "berth: command ") ||
				strings.Contains(out.String(), "escaped") {
				t.Errorf("descriptor %d (terminal %v) leads out of the task's root: %v, %q", fd, tty, err, out.String())
			}
		}
	}
}

// A task begins where its job says, and is killed sooner than others if its job says so; a command beside it is not.
func TestATaskBeginsInItsDirectoryWithItsScore(t *testing.T) {
	_, _, sh := isolated(t, exec.Config{}, func(tc *driver.TaskConfig) {
		tc.Config["work_dir"], tc.Config["oom_score_adj"] = "/local", 321
		tc.Config["args"] = []any{"-c", "pwd > /tmp/where; exec sleep 1000"}
	})
	for command, want := range map[string]string{
		"until test -s /tmp/where; do sleep 0.05; done; cat /tmp/where":                 "/local",
		"for p in /proc/[0-9]*; do grep -q sleep $p/comm && cat $p/oom_score_adj; done": "321",
		"cat /proc/1/oom_score_adj": "0",
	} {
		if got := sh(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// Given a task that may make device nodes, and has one for reading alone, then what it makes leads to no device, and
// what it may read it cannot write; its terminals and the harmless devices are there.
func TestATaskReachesNoDeviceThatItWasNotGiven(t *testing.T) {
	if !devices.Supported() {
		t.Skip("this kernel cannot filter devices")
	}
	_, _, sh := isolated(t, exec.Config{AllowCaps: []string{"all"}}, func(tc *driver.TaskConfig) {
		tc.Config["cap_add"] = []any{"mknod", "sys_admin"}
		tc.Devices = []driver.Device{{HostPath: "/dev/loop-control", TaskPath: "/dev/given", Permissions: "r"}}
		if _, err := os.Stat("/dev/loop-control"); err != nil {
			tc.Devices[0].HostPath = "/dev/kmsg"
		}
	})
	for command, want := range map[string]string{
		"mknod /dev/disk b 254 0 2>/dev/null || echo refused":                "refused",
		"mknod /dev/memory c 1 1 2>/dev/null || echo refused":                "refused",
		"(: > /dev/given) 2>/dev/null || echo refused":                       "refused",
		"(: < /dev/given) 2>/dev/null && echo read":                          "read",
		"head -c 1 /dev/zero | wc -c; echo x > /dev/null && echo written":    "1\nwritten",
		"head -c 4 /dev/urandom | wc -c; script -qc 'tty' /dev/null | wc -l": "4\n1",
	} {
		if got := sh(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// Given a task of root, then by Landlock it changes nothing but what is its own, whatever is mounted how; and all that
// programs do with files of their own they still do.
func TestATaskChangesFilesOfItsOwnAlone(t *testing.T) {
	if !privilege.Walls() {
		t.Skip("this kernel has no Landlock, or an early one")
	}
	volume := tempDir(t)
	_, _, sh := isolated(t, exec.Config{}, func(tc *driver.TaskConfig) {
		tc.Mounts = []driver.Mount{{Source: volume, Target: "/data"}, {Source: volume, Target: "/seen", ReadOnly: true}}
	})
	const made = "for d in /tmp /run /var/lib /alloc/data /secrets /dev/shm; do echo x > $d/x && cat $d/x; done | wc -l"
	for command, want := range map[string]string{
		"touch /mine 2>&1 | grep -c 'Permission denied'":                                        "1",
		"mkdir /etc/x 2>/dev/null || echo refused":                                              "refused",
		"touch /seen/x 2>/dev/null || echo refused":                                             "refused",
		"mkdir -p /data/a /data/c && touch /data/a/x && mv /data/a/x /data/c && ls /data/c":     "x",
		"mkfifo /local/f && ln -s f /local/l && ln /local/f /local/g && rm /local/g && echo ok": "ok",
		made: "6",
		"printf '#!/bin/sh\\necho ran' > /local/p && chmod 755 /local/p && /local/p": "ran",
		"echo 7 > /proc/self/oom_score_adj && cat /proc/self/oom_score_adj":          "7",
		"(mount -t tmpfs none /mnt || unshare -m true) 2>/dev/null || echo refused":  "refused",
	} {
		if got := sh(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
