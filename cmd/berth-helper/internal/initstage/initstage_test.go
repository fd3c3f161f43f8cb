package initstage

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"berth/cmd/berth-helper/internal/spawn"
	"berth/e2e/hostile"
	"berth/internal/base/fault"
	"berth/internal/shimproto"
	"berth/internal/testkit/mountns"
)

var update = flag.Bool("update", false, "rewrite golden files")

// roleEnv is set where this program is the init stage of a test.
const roleEnv = "BERTH_TEST_INIT_STAGE"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "" {
		mountns.Main(m.Run)
	}
	if err := Run(); err != nil {
		os.Exit(1) // the test reads the report
	}
}

// stage starts the init stage in new namespaces, as the shim does, and returns what it reports: its pid when the root
// stands.
func stage(t *testing.T, iso *shimproto.Isolate) (pid int, err error) {
	t.Helper()
	pid, end, err := begin(t, iso)
	t.Cleanup(end)
	return pid, err
}

// begin is stage for those who end it themselves.
func begin(t testing.TB, iso *shimproto.Isolate) (pid int, end func(), err error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	specR, specW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer specR.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reportR.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleEnv+"=1")
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{specR, reportW}
	if iso.FirstID != 0 {
		users, err := spawn.UserNamespace(iso.FirstID)
		if err != nil {
			t.Fatal(err)
		}
		defer users.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, users)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by that
	}
	_, writeErr := specW.Write(shimproto.Marshal(iso))
	for _, err := range []error{writeErr, specW.Close(), reportW.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	typ, payload, err := shimproto.Read(reportR)
	if err != nil {
		t.Fatal(err)
	}
	if typ == shimproto.TypeDone {
		return cmd.Process.Pid, end, nil
	}
	var f shimproto.Fault
	if err := shimproto.Unmarshal(payload, &f); err != nil {
		t.Fatal(err)
	}
	return 0, end, f.Err()
}

// place makes an empty directory for the root, and one with files to show in it.
func place(t *testing.T) (root, source string) {
	t.Helper()
	root, source = t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"data/file": "shown\n", "single": "one file\n"} {
		path := filepath.Join(source, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("data", filepath.Join(source, "link")); err != nil {
		t.Fatal(err)
	}
	return root, source
}

func TestARootHoldsWhatItWasGivenAndNothingElseOfTheNode(t *testing.T) {
	root, source := place(t)
	pid, err := stage(t, &shimproto.Isolate{
		Root:     root,
		System:   []string{"/etc", "/no/such/directory"},
		Hostname: "web",
		Binds: []shimproto.Bind{
			{Source: source + "/data", Target: "/data", ReadOnly: true},
			{Source: source + "/single", Target: "/opt/single"},
		},
		Devices:         []shimproto.Device{{HostPath: "/dev/zero", TaskPath: "/dev/nil"}},
		NoNewPrivileges: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	inside := fmt.Sprintf("/proc/%d/root", pid)
	for path, want := range map[string]string{"/data/file": "shown\n", "/opt/single": "one file\n", "/etc/shadow": ""} {
		if got, err := os.ReadFile(inside + path); err != nil || string(got) != want {
			t.Errorf("%s reads %q, %v", path, got, err)
		}
	}
	if err := os.WriteFile(inside+"/data/other", nil, 0o644); err == nil {
		t.Error("what was shown read-only can be written")
	}
	if err := os.WriteFile(inside+"/opt/single", []byte("changed\n"), 0o644); err != nil {
		t.Error(err)
	}
	for _, path := range []string{source, root} {
		if _, err := os.Stat(inside + path); err == nil {
			t.Errorf("the node's %s can be reached", path)
		}
	}
	entries, err := os.ReadDir(inside)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := strings.Fields("data dev etc home mnt opt proc root run srv sys tmp var")
	if !slices.Equal(names, want) {
		t.Errorf("its root has %v", names)
	}
	golden(t, "testdata/mounts.txt", mounts(t, pid))
	for _, path := range hostile.Masked { // those that this kernel has
		text, err := os.ReadFile(inside + path)
		if names, _ := os.ReadDir(inside + path); len(text)+len(names) > 0 {
			t.Errorf("%s reads %q, has %v, %v", path, text, names, err)
		}
	}
}

// Entries that are listed are there, links among them lead to what the task has too, and a job's mounts find a place.
func TestOnlyWhatIsListedOfEtcIsThere(t *testing.T) {
	root, source := place(t)
	pid, err := stage(t, &shimproto.Isolate{
		Root:            root,
		System:          []string{"/etc", "/usr"},
		Etc:             []string{"passwd", "ssl/certs", "mtab", "no-such-entry"},
		Binds:           []shimproto.Bind{{Source: source + "/single", Target: "/etc/app/single", ReadOnly: true}},
		NoNewPrivileges: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	inside := fmt.Sprintf("/proc/%d/root", pid)
	var got []string
	entries, err := os.ReadDir(inside + "/etc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want := []string{"app", "mtab", "passwd", "ssl"}
	want = slices.DeleteFunc(want, func(name string) bool { // what the machine has not
		_, err := os.Lstat("/etc/" + name)
		return name != "app" && err != nil
	})
	if !slices.Equal(got, want) {
		t.Errorf("/etc has %v, want %v", got, want)
	}
	for _, name := range []string{"passwd", "app/single"} {
		if text, err := os.ReadFile(inside + "/etc/" + name); err != nil || len(text) == 0 {
			t.Errorf("%s reads %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"", "passwd"} { // asked only: by a defect here it would be the node's own
		if err := unix.Access(inside+"/etc/"+name, unix.W_OK); !errors.Is(err, unix.EROFS) {
			t.Errorf("/etc/%s can be written: %v", name, err)
		}
	}
}

// mounts lists a process's mounts: where, of which kind, and how they are restricted.
func mounts(t *testing.T, pid int) string {
	t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(table)) {
		left, right, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(left), strings.Fields(right)[0]
		switch options := strings.Split(fields[5], ","); {
		case strings.HasPrefix(fields[4], "/proc/") || strings.HasPrefix(fields[4], "/sys/") ||
			strings.HasPrefix(fields[4], "/etc/"):
			// which of these there are is the kernel's and the distribution's affair
		default:
			options = slices.DeleteFunc(options, func(o string) bool { return o == "relatime" || o == "noatime" })
			if slices.Contains([]string{"/etc", "/data", "/opt/single", "/dev/nil"}, fields[4]) {
				kind = "of the node" // whatever that is
			}
			out = append(out, fmt.Sprintf("%s %s %s\n", fields[4], kind, strings.Join(options, ",")))
		}
		if len(fields) > 6 && strings.HasPrefix(fields[6], "shared:") {
			t.Errorf("%s propagates to the node", fields[4])
		}
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// unshared makes a mount that propagates nowhere.
func unshared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Whoever wrote a job reads these.
func TestWhyNoRootWasBuilt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	root, source := place(t)
	private := unshared(t)
	var got strings.Builder
	for _, c := range []struct {
		name string
		iso  shimproto.Isolate
	}{
		{"no such source", shimproto.Isolate{Binds: []shimproto.Bind{{Source: source + "/none", Target: "/a"}}}},
		{"a link as source", shimproto.Isolate{Binds: []shimproto.Bind{{Source: source + "/link", Target: "/a"}}}},
		{"an unknown propagation",
			shimproto.Isolate{Binds: []shimproto.Bind{{Source: source, Target: "/a", Propagation: "both"}}}},
		{"propagation of what is not shared",
			shimproto.Isolate{Binds: []shimproto.Bind{{Source: private, Target: "/a", Propagation: "shared"}}}},
		{"a target in a read-only tree",
			shimproto.Isolate{
				System: []string{source}, // nothing of the node's own: a defect here would write there
				Binds:  []shimproto.Bind{{Source: source, Target: source + "/no/such"}},
			}},
		{"a target below a file",
			shimproto.Isolate{
				Binds: []shimproto.Bind{{Source: source + "/single", Target: "/a"}, {Source: source, Target: "/a/b"}},
			}},
		{"a directory over a file",
			shimproto.Isolate{
				Binds: []shimproto.Bind{{Source: source + "/single", Target: "/a"}, {Source: source, Target: "/a"}},
			}},
		{"no such device",
			shimproto.Isolate{Devices: []shimproto.Device{{HostPath: "/dev/none", TaskPath: "/dev/none"}}}},
		{"a file as device",
			shimproto.Isolate{Devices: []shimproto.Device{{HostPath: source + "/single", TaskPath: "/dev/a"}}}},
		{"not below /etc", shimproto.Isolate{Etc: []string{"../root"}}},
		{"no such root", shimproto.Isolate{Root: source + "/none"}},
		{"a host name that is too long", shimproto.Isolate{Hostname: strings.Repeat("x", 65)}},
	} {
		if c.iso.Root == "" {
			c.iso.Root = root
		}
		_, err := stage(t, &c.iso)
		if err == nil {
			t.Errorf("%s: the root was built", c.name)
			continue
		}
		fmt.Fprintf(&got, "%s:\n  %s: %s\n", c.name, fault.KindOf(err),
			strings.NewReplacer(source, "SOURCE", private, "PRIVATE").Replace(err.Error()))
	}
	golden(t, "testdata/refusals.txt", got.String())
}

// A link that an earlier task left in a directory it could write is followed within the task's root alone.
func TestALinkInATargetDoesNotLeadOutOfTheRoot(t *testing.T) {
	root, source := place(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(source, "data", "escape")); err != nil {
		t.Fatal(err)
	}
	pid, err := stage(t, &shimproto.Isolate{
		Root: root,
		Binds: []shimproto.Bind{
			{Source: source + "/data", Target: "/data"},
			{Source: source + "/single", Target: "/data/escape/f"},
		},
	})
	if err == nil {
		t.Errorf("it mounted through the link: %s", mounts(t, pid))
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside of the root there is now %v, %v", entries, err)
	}
}

// Given a pipe that a task has put where a file's mount target was missing a moment ago, when the target is made, then
// nobody waits at the pipe: what was found is the target.
func TestAPipeInPlaceOfATargetHoldsNothingUp(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 2)
	go func() {
		r := &root{iso: &shimproto.Isolate{}, fd: fd}
		made <- r.make("", "pipe", true)
		made <- r.make("", "file", true)
	}()
	for _, name := range []string{"pipe", "file"} {
		select {
		case err := <-made:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it waits", name)
		}
	}
	if st, err := os.Lstat(filepath.Join(dir, "file")); err != nil || st.Mode() != 0o644 {
		t.Errorf("an empty file: %v, %v", st, err)
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", file, diff)
	}
}
