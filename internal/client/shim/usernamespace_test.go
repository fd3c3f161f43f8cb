package shim_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
)

// firstID is where the numbers begin of which allocs of these tests get their own.
const firstID = 1 << 20

// ownUsers is the configuration of a node with numbers for so many allocs.
func ownUsers(allocs uint32) exec.Config {
	return exec.Config{IDs: &driver.IDRange{First: firstID, Last: firstID + allocs*driver.IDsPerAlloc - 1}}
}

// owners lists what is below a directory of the node, with the numbers to which it belongs.
func owners(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st := statOf(t, p)
		rel, err := filepath.Rel(dir, p)
		out[rel] = fmt.Sprintf("%d:%d", st.Uid, st.Gid)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func statOf(t *testing.T, p string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		t.Fatal(p, err)
	}
	return st
}

// Given an agent with numbers for user namespaces, when a task of root runs, then for the node it is nobody that there
// is; what it reads, writes and gives away in its directories and in volumes, on the node's disk and in memory, has the
// numbers that it would have without; it cannot do what only root of the node can; and a command beside it is in the
// same namespace.
func TestRootOfATaskIsNobodyOfTheNode(t *testing.T) {
	volume, memory := tempDir(t), tempDir(t)
	mustMount(t, "tmpfs", memory, "tmpfs", 0)
	for _, dir := range []string{volume, memory} {
		for name, id := range map[string]int{"root": 0, "nobody": 65534} {
			p := filepath.Join(dir, "of-"+name)
			if err := os.WriteFile(p, []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(p, id, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	full := filepath.Join(tempDir(t), "device")
	if err := errors.Join(unix.Mknod(full, unix.S_IFCHR|0o640, int(unix.Mkdev(1, 7))), os.Chown(full, 0, 7),
		os.Chmod(full, 0o640)); err != nil {
		t.Fatal(err)
	}
	task, tc, sh := isolated(t, ownUsers(4), func(c *driver.TaskConfig) {
		c.User = "root"
		c.Mounts = append(c.Mounts, driver.Mount{Source: volume, Target: "/volume"},
			driver.Mount{Source: memory, Target: "/local/made/here"},
			driver.Mount{Source: full, Target: "/volume/full"}) // as volumes of blocks are shown
		c.Devices = append(c.Devices, driver.Device{HostPath: "/dev/zero", TaskPath: "/volume/zero"})
	})
	handle := task.Handle()
	pid := handle.PID
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	if err != nil || strings.Join(strings.Fields(string(maps)), " ") != fmt.Sprintf("0 %d 65536", firstID) {
		t.Errorf("the task's map is %q, %v", maps, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	of := strconv.Itoa(firstID)
	for _, id := range []string{"Uid:", "Gid:"} {
		if want := id + "\t" + strings.Join([]string{of, of, of, of}, "\t") + "\n"; err != nil ||
			!strings.Contains(string(status), want) {
			t.Errorf("no %q in the task's status, %v:\n%s", want, err, status)
		}
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var owner uint32
	if err := ioctl(ns, unix.NS_GET_OWNER_UID, &owner); err != nil || owner != firstID {
		t.Errorf("what the task's users have of the kernel is counted to user %d of the node, %v", owner, err)
	}
	for _, c := range []struct{ command, want string }{
		{"id -u; id -g", "0\n0"},
		{"readlink /proc/self/ns/user", link(t, fmt.Sprintf("/proc/%d/ns/user", pid))},
		{"grep CapBnd /proc/self/status | cut -f2; grep CapEff /proc/self/status | cut -f2",
			bounding() + "\n" + bounding()},
		{"cat /volume/of-root /volume/of-nobody /local/made/here/of-root /local/made/here/of-nobody",
			"keptkeptkeptkept"},
		{"stat -c %u /volume/of-root /volume/of-nobody /usr/bin /etc/passwd / /dev /dev/null /run /alloc | " +
			"tr '\\n' ' '", "0 65534 0 0 0 0 0 0 0"},
		{"cd /volume && echo a > a && mkdir d && echo b > d/b && chown 1234:4321 a && cat of-nobody", "kept"},
		{"cd /local/made/here && echo a > a && mkdir d && chown 65534:65534 d && echo ok", "ok"},
		{"echo a > /local/a && echo b > /secrets/b && echo c > /alloc/data/c && echo d > /tmp/d && echo ok", "ok"},
		{"echo x > /dev/null && echo a > /dev/shm/a && echo a > /run/a && echo ok", "ok"},
		{"echo out > /dev/stdout", "out"},
		{"mount -t tmpfs none /mnt 2>/dev/null || echo refused", "refused"},
		{"unshare -U true 2>/dev/null || echo refused", "refused"},
		{"(echo 1 > /proc/sys/vm/swappiness) || echo refused", "refused"},
		{"dd if=/volume/zero count=1 status=none | wc -c; (echo a > /volume/full) || echo refused", "512\nrefused"},
		{"stat -c '%F %u %g %a %t,%T' /volume/zero /volume/full",
			"character special file 0 0 666 1,5\ncharacter special file 0 7 640 1,7"},
		{"ls /proc/1/fd >/dev/null 2>&1 || echo refused", "refused"},
		{"kill -9 1 2>/dev/null; cat /proc/1/comm", "berth-init"},
		{"chown 70000 /volume/a 2>/dev/null || echo refused", "refused"},
	} {
		got := sh(strings.ReplaceAll(c.command, "|| echo refused", "2>/dev/null || echo refused"))
		if want := strings.TrimSpace(c.want); got != want {
			t.Errorf("%s: %q, want %q", c.command, got, want)
		}
	}
	for dir, want := range map[string]map[string]string{
		volume: {"a": "1234:4321", "d": "0:0", "d/b": "0:0", "of-root": "0:0", "of-nobody": "65534:65534"},
		memory: {"a": "0:0", "d": "65534:65534", "of-root": "0:0", "of-nobody": "65534:65534"},
		filepath.Dir(tc.AllocDir): {"web/local/a": "0:0", "web/secrets/b": "0:0", "alloc/data/c": "0:0",
			"web/tmp/d": "0:0", "web/local/made": "0:0", "web/local/made/here": "0:0"},
	} {
		got := owners(t, dir)
		for name, id := range want {
			if got[name] != id {
				t.Errorf("%s of %s belongs to %q on the node, want %s", name, dir, got[name], id)
			}
		}
	}
	var out bytes.Buffer
	if _, err := task.Exec(short(t), driver.ExecRequest{
		Command: []string{"/bin/sh", "-c", "stat -Lc %u /proc/self/fd/0; tty"}, Stdout: &out, TTY: true,
	}); err != nil || strings.Join(strings.Fields(out.String()), " ") != "0 /dev/pts/0" {
		t.Errorf("the terminal of a command: %q, %v", out.String(), err)
	}
}

func ioctl(f *os.File, request uintptr, out *uint32) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(out))); errno != 0 {
		return errno
	}
	return nil
}

func link(t *testing.T, p string) string {
	t.Helper()
	to, err := os.Readlink(p)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// Given a node whose tasks have user namespaces, when an ordinary user's task names a capability, then it has that one
// and no other, within its namespace.
func TestAnOrdinaryUserOfANamespaceHasWhatItNames(t *testing.T) {
	_, tc, sh := isolated(t, ownUsers(1), func(c *driver.TaskConfig) {
		c.User = "nobody"
		c.Config["cap_add"] = []any{"chown"}
	})
	if got := sh("grep CapEff /proc/self/status | cut -f2; id -u"); got != "0000000000000001\n65534" {
		t.Errorf("its capabilities, its user: %q", got)
	}
	if got := sh("touch /alloc/data/a && chown 12:34 /alloc/data/a && echo out > /dev/stdout"); got != "out" {
		t.Errorf("giving a file away: %q", got)
	}
	if got := owners(t, tc.AllocDir)["data/a"]; got != "12:34" {
		t.Errorf("the file belongs to %q on the node", got)
	}
}

// Given tasks of several allocs with user namespaces, then none has numbers of another's, also when the agent was
// started anew in between, whatever its range; a task that is started again keeps those of its alloc; when all are
// taken, another alloc is refused by a sentence, and it gets those of one that has ended.
func TestAllocsNeverShareTheirUsers(t *testing.T) {
	dir := tempDir(t)
	start := func(cfg exec.Config, alloc ids.Alloc, name string) (driver.Task, int, error) {
		t.Helper()
		tc := drivertest.Config(t, tempDir(t), alloc, name, "exec sleep 1000")
		task, err := exec.New(cfg, launcherAt(t, dir)).Start(short(t), tc) // each time by an agent that knows nothing
		if err != nil {
			return nil, 0, err
		}
		handle := task.Handle()
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/gid_map", handle.PID))
		if err != nil {
			t.Fatal(err)
		}
		first, err := strconv.Atoi(strings.Fields(string(maps))[1])
		if err != nil {
			t.Fatal(err)
		}
		return task, first, nil
	}
	t.Cleanup(func() {
		if err := launcherAt(t, dir).EndAll(short(t)); err != nil {
			t.Error(err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*.ids")); err != nil || len(left) > 0 {
			t.Errorf("what is left: %v, %v", left, err)
		}
	})
	a, b := ids.Alloc(ids.New()), ids.Alloc(ids.New())
	c := ids.Alloc(ids.New())
	_, first, err := start(ownUsers(2), a, "web")
	if err != nil || first != firstID {
		t.Fatal(first, err)
	}
	_, same, err := start(ownUsers(2), a, "side")
	if err != nil || same != firstID {
		t.Errorf("another task of the alloc has numbers from %d on, %v", same, err)
	}
	// Its range begins within what another alloc has.
	shifted := exec.Config{IDs: &driver.IDRange{First: firstID + 10, Last: firstID + 10 + 2*driver.IDsPerAlloc - 1}}
	_, second, err := start(shifted, b, "web")
	if err != nil || second != firstID+10+driver.IDsPerAlloc {
		t.Errorf("the second alloc has numbers from %d on, %v", second, err)
	}
	_, _, err = start(ownUsers(2), c, "web")
	if !fault.Has(err, fault.Exhausted) || !strings.Contains(err.Error(), "1048576-1179647 has numbers for 2 allocs") ||
		!strings.Contains(err.Error(), "user_namespaces") {
		t.Errorf("with all numbers taken: %v", err)
	}
	if err := launcherAt(t, dir).End(short(t), a); err != nil {
		t.Fatal(err)
	}
	if _, third, err := start(ownUsers(2), c, "web"); err != nil || third != firstID {
		t.Errorf("after an alloc's end: %d, %v", third, err)
	}
}

// Given a task with a user namespace and a mount of a file system that cannot show other numbers of users, or a
// part of it, when it is started, then that is refused as permanent, names mount, place and file system and a way out,
// and nothing was written.
func TestAFileSystemThatCannotShowOtherUsersIsRefused(t *testing.T) {
	base := tempDir(t)
	var dirs []string
	for _, d := range []string{"lower", "upper", "work", "volume", "volume/part"} {
		dirs = append(dirs, filepath.Join(base, d))
		if err := os.Mkdir(dirs[len(dirs)-1], 0o777); err != nil {
			t.Fatal(err)
		}
	}
	scratch := tempDir(t) // of another file system than a container's root may be
	mustMount(t, "tmpfs", scratch, "tmpfs", 0)
	for _, d := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(scratch, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	part := dirs[4]
	if err := unix.Mount("overlay", part, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work",
		dirs[0], scratch, scratch)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(part, 0); err != nil {
			t.Error(err)
		}
	})
	tc := drivertest.Config(t, tempDir(t), ids.Alloc(ids.New()), "web", "exec touch /data/made /data/part/made")
	tc.Mounts = append(tc.Mounts, driver.Mount{
		Source: filepath.Dir(part),
		Target: "/data",
		Volume: `volume "shop"`,
	})
	_, err := exec.New(ownUsers(1), newLauncher(t)).Start(short(t), tc)
	if !fault.Has(err, fault.Unsupported) {
		t.Fatalf("the start: %v", err)
	}
	for _, want := range []string{`volume "shop" at "/data"`, part, "overlay", "user namespace"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if hint := err.Error(); !strings.Contains(hint, "ext4") || !strings.Contains(hint, "is_not_set") {
		t.Errorf("the way out: %q", hint)
	}
	if left := owners(t, filepath.Dir(part)); len(left) != 2 {
		t.Errorf("written: %v", left)
	}
}

// Given an agent whose tasks have user namespaces, then it offers that to constraints, having tried it, and is
// unhealthy by a sentence where it does not work; a job that asks for what means nothing there is refused likewise.
func TestWhatUserNamespacesCannotHaveIsRefused(t *testing.T) {
	f := exec.New(ownUsers(1), newLauncher(t)).Fingerprint(short(t))
	if f.Health != driver.Healthy || f.Attributes["driver.exec.user_namespaces"] != "1" {
		t.Errorf("the node: %+v", f)
	}
	f = exec.New(exec.Config{}, newLauncher(t)).Fingerprint(short(t))
	if f.Attributes["driver.exec.user_namespaces"] != "" {
		t.Errorf("a node without: %+v", f)
	}
	impossible := ownUsers(1)
	impossible.System = []string{"/usr", "/proc"}
	f = exec.New(impossible, newLauncher(t)).Fingerprint(short(t))
	if f.Health != driver.Unhealthy || !strings.Contains(f.Description, "/proc") ||
		!strings.Contains(f.Description, "user_namespaces") {
		t.Errorf("a node whose directories cannot be shown: %+v", f)
	}
	for want, change := range map[string]func(*driver.TaskConfig){
		`"net_raw" means nothing`: func(c *driver.TaskConfig) { c.Config["cap_add"] = []any{"NET_RAW"} },
		`"host-to-task"`: func(c *driver.TaskConfig) {
			c.Mounts = append(c.Mounts, driver.Mount{Source: "/tmp", Target: "/data", Propagation: "host-to-task"})
		},
		"user or group 65536": func(c *driver.TaskConfig) { c.User = "65536:100" },
	} {
		tc := drivertest.Config(t, tempDir(t), ids.Alloc(ids.New()), "web", "exec sleep 1000")
		change(tc)
		_, err := exec.New(ownUsers(1), newLauncher(t)).Start(short(t), tc)
		if !fault.Has(err, fault.Unsupported) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "driver.exec.user_namespaces") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Given an agent with user namespaces, then tasks that act on the node stay in its own.
func TestWhoActsOnTheNodeHasItsUsers(t *testing.T) {
	for what, change := range map[string]func(*driver.TaskConfig, *exec.Config){
		"pid mode": func(tc *driver.TaskConfig, c *exec.Config) {
			c.AllowHostPID = true
			tc.Config["pid_mode"] = "host"
		},
		"ipc mode": func(tc *driver.TaskConfig, c *exec.Config) {
			c.AllowHostIPC = true
			tc.Config["ipc_mode"] = "host"
		},
		"node-role plugin": func(tc *driver.TaskConfig, c *exec.Config) {
			c.AllowCSINode = true
			tc.CSIPluginNode = true
		},
	} {
		cfg := ownUsers(1)
		tc := drivertest.Config(t, tempDir(t), ids.Alloc(ids.New()), "web", "exec sleep 1000")
		change(tc, &cfg)
		task, err := exec.New(cfg, newLauncher(t)).Start(short(t), tc)
		if err != nil {
			t.Fatal(what, err)
		}
		handle := task.Handle()
		got := link(t, fmt.Sprintf("/proc/%d/ns/user", handle.PID))
		if want := link(t, "/proc/self/ns/user"); got != want {
			t.Errorf("%s: in %s, the node's is %s", what, got, want)
		}
		if err := task.Stop(short(t), "", 0); err != nil {
			t.Error(err)
		}
	}
}
