package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// onHostVolume is a shellJob whose task has a host volume at /data, as root.
func onHostVolume(id, volume, script string) string {
	hcl := shellJob(id, "exec", script, "")
	hcl = strings.Replace(hcl, `group "g" {`, fmt.Sprintf(`group "g" {
    volume "data" {
      type   = "host"
      source = %q
    }`, volume), 1)
	return strings.Replace(hcl, "driver = ", `user = "root"
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      driver = `, 1)
}

// TestFileSystemsShowOtherNumbersOrAreRefused: root of a user namespace writes to host volumes on xfs and on btrfs what
// the node's root would have written; where the file system cannot show other numbers, the task is refused by name and
// nothing is written.
func TestFileSystemsShowOtherNumbersOrAreRefused(t *testing.T) {
	m := prepare(t, false)
	var volumes string
	dir := func(name string) string {
		path := filepath.Join(m.root, name)
		must(t, os.MkdirAll(path, 0o755))
		return path
	}
	mounted := func(name string, mount func(at string)) {
		at := dir(name)
		mount(at)
		t.Cleanup(func() { must(t, unix.Unmount(at, 0)) })
		volumes += fmt.Sprintf("  host_volume %q { path = %q }\n", name, at)
	}
	command := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	for _, fs := range []string{"xfs", "btrfs"} {
		mounted(fs, func(at string) {
			image := at + ".img"
			must(t, os.WriteFile(image, nil, 0o600))
			must(t, os.Truncate(image, 512<<20))
			command("mkfs."+fs, "-q", image)
			command("mount", "-o", "loop", image, at)
		})
	}
	mounted("overlay", func(at string) {
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir("lower"), dir("upper"), dir("work"))
		must(t, unix.Mount("overlay", at, "overlay", 0, options))
	})
	m.configure(false, fmt.Sprintf("socket = %q", m.socket()), ownUsers)
	file := filepath.Join(m.root, "agent.hcl")
	text, err := os.ReadFile(file)
	must(t, err)
	text = []byte(strings.Replace(string(text), "  host_volume ", volumes+"  host_volume ", 1))
	must(t, os.WriteFile(file, text, 0o600))
	m.start()

	const writes = "umask 077; mkdir /data/d && echo line > /data/d/x && chown 77:78 /data/d/x; " +
		"stat -c %u:%g:%a /data/d /data/d/x"
	for _, fs := range []string{"xfs", "btrfs"} {
		m.run(onHostVolume(fs, fs, writes+"; exec sleep 100000"))
		a := m.running(fs, 1)[0]
		m.eventually("the task on "+fs+" to have said all", func() bool {
			return m.output(a.ID) == "0:0:700\n77:78:600\n"
		})
		if got := m.firstID(m.pid(a.ID, "t", "100000")); got < 3000000 {
			t.Errorf("%s: root of the task is %d on the node", fs, got)
		}
		for path, owner := range map[string][2]uint32{"d": {0, 0}, "d/x": {77, 78}} {
			var st syscall.Stat_t
			must(t, syscall.Lstat(filepath.Join(m.root, fs, path), &st))
			if st.Uid != owner[0] || st.Gid != owner[1] {
				t.Errorf("%s: %s is %d:%d's on the node, want %v", fs, path, st.Uid, st.Gid, owner)
			}
		}
		m.stopJob(fs)
	}
	m.run(onHostVolume("overlay", "overlay", writes))
	mustSay(t, "the refusal of overlay", m.failure("overlay"), "overlay", "user_namespaces")
	if left, err := os.ReadDir(filepath.Join(m.root, "upper")); err != nil || len(left) > 0 {
		t.Errorf("after the refusal there is %v (%v)", left, err)
	}
}
