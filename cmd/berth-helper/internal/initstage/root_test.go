package initstage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/port/driver/exec"
	"berth/internal/shimproto"
)

// ordinary describes the root of a task that asks for nothing.
func ordinary(t testing.TB) *shimproto.Isolate {
	t.Helper()
	dir := t.TempDir()
	iso := &shimproto.Isolate{
		Root:            filepath.Join(dir, "root"),
		System:          exec.DefaultSystem,
		NoNewPrivileges: true,
	}
	for _, name := range []string{"root", "alloc", "alloc/logs", "local", "secrets", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if name != "root" {
			iso.Binds = append(iso.Binds, shimproto.Bind{Source: filepath.Join(dir, name), Target: "/" + name})
		}
	}
	for _, pattern := range exec.DefaultEtc {
		found, err := filepath.Glob(filepath.Join(etc, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			iso.Etc = append(iso.Etc, strings.TrimPrefix(p, etc+"/"))
		}
	}
	return iso
}

// From the start of the init stage, which is a larger program here, to the report that a task's root stands.
func BenchmarkRoot(b *testing.B) {
	iso := ordinary(b)
	for b.Loop() {
		_, end, err := begin(b, iso)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		end()
		b.StartTimer()
	}
}

// ownEtc gives the tests' mount namespace an /etc of its own.
func ownEtc(t *testing.T, files map[string]string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	if err := unix.Mount("tmpfs", etc, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(etc, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for name, text := range files {
		path := filepath.Join(etc, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// Given a node whose administrator writes files of /etc anew, removes some, makes others, puts a link in the place of
// one and mounts over another, when a task starts after that, then it has each as it is now, and what is on no list it
// never has. The task that started before has what it had.
func TestWhatChangesInEtcIsSeenByTheNextStart(t *testing.T) {
	ownEtc(t, map[string]string{
		"passwd":           "before",
		"hosts":            "before",
		"localtime":        "before",
		"profile":          "before",
		"ssl/certs/a.pem":  "before",
		"shadow":           "secret",
		"resolv.conf.mine": "mine",
	})
	iso := &shimproto.Isolate{
		Root:   t.TempDir(),
		System: []string{"/usr"},
		Etc: []string{"passwd", "hosts", "localtime", "profile", "resolv.conf", "ssl/certs", "services", "group",
			"rpc"},
		NoNewPrivileges: true,
	}
	first, err := stage(t, iso)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(etc, name) }
	if err := errors.Join(
		os.WriteFile(at("passwd.new"), []byte("after"), 0o644), os.Rename(at("passwd.new"), at("passwd")),
		os.Remove(at("hosts")),
		os.Remove(at("localtime")), os.Symlink("/usr/share/zoneinfo/UTC", at("localtime")),
		os.WriteFile(at("services"), []byte("after"), 0o644),
		os.WriteFile(at("ssl/certs/b.pem"), []byte("after"), 0o644),
		os.Symlink("resolv.conf.mine", at("resolv.conf")), os.Symlink("nowhere", at("group")),
		os.Symlink("/usr/none", at("rpc")),
		unix.Mount(at("passwd"), at("profile"), "", unix.MS_BIND, ""),
	); err != nil {
		t.Fatal(err)
	}
	second, err := stage(t, iso)
	if err != nil {
		t.Fatal(err)
	}
	read := func(pid int, name string) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/etc/%s", pid, name))
		if err != nil {
			return "none"
		}
		return string(text)
	}
	for name, want := range map[string][2]string{
		"passwd":           {"before", "after"},
		"hosts":            {"before", "none"},
		"profile":          {"before", "after"},
		"services":         {"none", "after"},
		"ssl/certs/a.pem":  {"before", "before"},
		"ssl/certs/b.pem":  {"after", "after"}, // a directory is shown as it is
		"resolv.conf":      {"none", "mine"},   // what a link leads to that the task has not
		"resolv.conf.mine": {"none", "none"},
		"group":            {"none", "none"},
		"shadow":           {"none", "none"},
	} {
		if got := [2]string{read(first, name), read(second, name)}; got != want {
			t.Errorf("%s reads %q before and after, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"localtime": "/usr/share/zoneinfo/UTC", "rpc": "/usr/none"} {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/root/etc/%s", second, name)); to != want {
			t.Errorf("%s leads to %q, %v, want %q", name, to, err, want)
		}
	}
}

// Given an ordinary task, then nothing that is mounted from the node for it, nor what hides something, can be written
// or gives privileges.
func TestWhatTheNodeShowsAnOrdinaryTaskIsSealed(t *testing.T) {
	iso := ordinary(t)
	pid, err := stage(t, iso)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	own := []string{"/", "/proc", "/run", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue"}
	for _, b := range iso.Binds {
		own = append(own, b.Target)
	}
	seen := 0
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		at, options := fields[4], strings.Split(fields[5], ",")
		if slices.Contains(own, at) {
			continue
		}
		seen++
		device := strings.HasSuffix(fields[3], "/null") // what hides a file
		if !device && !slices.Contains(options, "ro") || !slices.Contains(options, "nosuid") {
			t.Errorf("%s is mounted so: %v", at, options)
		}
		if fields[6] != "-" {
			t.Errorf("%s propagates: %s", at, fields[6])
		}
	}
	if seen < 10 {
		t.Errorf("only %d mounts were looked at:\n%s", seen, table)
	}
}
