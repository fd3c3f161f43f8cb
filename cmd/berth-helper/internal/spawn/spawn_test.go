package spawn

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/cgroup"
	"berth/internal/shimproto"
)

var update = flag.Bool("update", false, "rewrite golden files")

// nursery is where children of a test are born: a lifecycle of their own and a cgroup.
type nursery struct {
	t     *testing.T
	group *lifecycle.Group
	leaf  string
}

func newNursery(t *testing.T) *nursery {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("cgroups and users need root")
	}
	tree, err := cgroup.Discover()
	if err != nil {
		t.Fatal(err)
	}
	slice, alloc := fmt.Sprintf("berth-spawn-test-%d.slice", os.Getpid()), ids.New()
	g := tree.Group(slice, alloc, "web.1")
	if err := g.Create(cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	children, _ := lifecycle.NewGroup(t.Context())
	t.Cleanup(func() {
		errs := []error{g.Kill(), children.Wait(), g.Remove(), tree.RemoveAlloc(slice, alloc)}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	return &nursery{t: t, group: children, leaf: g.TaskLeaf()}
}

// start starts a child that prints into a pipe, and returns the pipe.
func (n *nursery) start(s Spec) (*Child, *os.File, error) {
	n.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = r.Close() }) // it was read
	defer w.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		n.t.Fatal(err)
	}
	defer null.Close()
	if s.TTY == nil {
		s.Files = []*os.File{null, w, w}
	}
	if s.Cgroup == "" {
		s.Cgroup = n.leaf
	}
	c, err := Start(n.group, s)
	if err == nil {
		n.t.Cleanup(c.Close)
	}
	return c, r, err
}

// script writes an executable file.
func script(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// Whoever wrote a job reads these: each names what was tried and what is in the way.
func TestWhyNothingWasStarted(t *testing.T) {
	n := newNursery(t)
	dir, err := os.MkdirTemp("/tmp", "spawn") // other users come into it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the test's own
	noexec := filepath.Join(dir, "noexec")
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(noexec, 0o755),
		os.Mkdir(filepath.Join(dir, "folder"), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", noexec, "tmpfs", unix.MS_NOEXEC, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(noexec, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	script(t, dir, "no-interpreter", "#!/no/such/interpreter\n", 0o755)
	script(t, dir, "no-program", "just text\n", 0o755)
	script(t, dir, "no-mode", "#!/bin/sh\n", 0o644)
	script(t, dir, "for-root", "#!/bin/sh\n", 0o700)
	script(t, noexec, "script", "#!/bin/sh\n", 0o755)

	path := "PATH=" + dir + ":/no/such/dir"
	nobody := &shimproto.User{UID: 65534, GID: 65534}
	var got strings.Builder
	for _, c := range []struct {
		name string
		spec Spec
	}{
		{"no such directory", Spec{Argv: []string{"sh"}, Dir: "/no/such/dir"}},
		{"a file as directory", Spec{Argv: []string{"sh"}, Dir: filepath.Join(dir, "no-mode")}},
		{"no such path", Spec{Argv: []string{"/no/such/command"}}},
		{"no such path below the directory", Spec{Argv: []string{"bin/command"}, Dir: dir}},
		{"a directory", Spec{Argv: []string{"./folder"}, Dir: dir}},
		{"not executable", Spec{Argv: []string{"./no-mode"}, Dir: dir}},
		{"not in PATH", Spec{Argv: []string{"command"}, Env: []string{path}, Search: []string{"/local"}}},
		{"no PATH", Spec{Argv: []string{"command"}}},
		{"in PATH, not executable", Spec{Argv: []string{"no-mode"}, Env: []string{path}}},
		{"the interpreter is missing", Spec{Argv: []string{"no-interpreter"}, Env: []string{path}}},
		{"not a program", Spec{Argv: []string{"no-program"}, Env: []string{path}}},
		{"not this user's", Spec{Argv: []string{"for-root"}, Env: []string{path}, User: nobody}},
		{"on a mount without exec", Spec{Argv: []string{"noexec/script"}, Dir: dir}},
		{"too many arguments", Spec{Argv: []string{"/bin/true", strings.Repeat("x", 1<<20)}}},
		{"no such cgroup", Spec{Argv: []string{"/bin/true"}, Cgroup: "/no/such/cgroup"}},
		{"no such v1 group",
			Spec{Argv: []string{"/bin/true"}, Visit: Visit{[]string{"/no/such/group"}, []string{"/dev/null"}}}},
		{"no such namespaces", Spec{Argv: []string{"/bin/true"}, Enter: &Enter{PidFD: -1, Flags: unix.CLONE_NEWNS}}},
	} {
		child, _, err := n.start(c.spec)
		if err == nil {
			t.Errorf("%s: it was started", c.name)
			<-child.Done()
			continue
		}
		fmt.Fprintf(&got, "%s:\n  %s: %s\n", c.name, fault.KindOf(err), strings.ReplaceAll(err.Error(), dir, "DIR"))
		if code, ok := ExitCode(err); ok {
			fmt.Fprintf(&got, "  in a session: exit code %d\n", code)
		}
	}
	const file = "testdata/refusals.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", file, diff)
	}
}

func TestAChildIsWhatItsSpecSays(t *testing.T) {
	n := newNursery(t)
	dir := t.TempDir()
	script(t, dir, "mine",
		"#!/bin/sh\necho \"$@\"; pwd; id -u; id -g; id -G; echo $COLOUR; cat /proc/self/cgroup | grep ^0::; ls "+
			"/proc/self/fd | tr '\\n' ' '\n", 0o755)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, out, err := n.start(Spec{
		Argv:   []string{"mine", "a b", "c"},
		Env:    []string{"COLOUR=red", "PATH=/usr/bin:/bin"},
		Dir:    "/usr",
		Search: []string{dir},
		User:   &shimproto.User{UID: 65534, GID: 65534, Groups: []uint32{7, 8}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if code, sig, err := c.Exit(); code != 0 || sig != 0 || err != nil {
		t.Errorf("it ended with %d, signal %d, %v", code, sig, err)
	}
	// Descriptor 3 is the directory that ls reads.
	lines := strings.Split(string(text), "\n")
	if len(lines) != 8 || !strings.HasSuffix(n.leaf, strings.TrimPrefix(lines[6], "0::")) {
		t.Fatalf("it says %q and should live in %s", text, n.leaf)
	}
	lines[6] = "its cgroup"
	want := []string{"a b c", "/usr", "65534", "65534", "65534 7 8", "red", "its cgroup", "0 1 2 3 "}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

func TestHowAChildEnds(t *testing.T) {
	n := newNursery(t)
	c, _, err := n.start(Spec{Argv: []string{"/bin/sh", "-c", "exit 7"}})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if code, sig, err := c.Exit(); code != 7 || sig != 0 || err != nil {
		t.Errorf("exit 7: %d, %d, %v", code, sig, err)
	}
	if err := c.Signal(unix.SIGTERM); err != nil {
		t.Errorf("a signal to one that has ended: %v", err)
	}
	c.Close()
	c.Close()
	if err := c.Signal(unix.SIGTERM); err != nil {
		t.Errorf("a signal to one that was closed: %v", err)
	}
	c, _, err = n.start(Spec{Argv: []string{"/bin/sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if code, sig, err := c.Exit(); code != 0 || unix.Signal(sig) != unix.SIGTERM || err != nil {
		t.Errorf("after SIGTERM: %d, %d, %v", code, sig, err)
	}
}

func TestAChildOnATerminalLeadsItsSession(t *testing.T) {
	n := newNursery(t)
	c, _, err := n.start(
		Spec{
			Argv: []string{"/bin/sh", "-c", "stty size; tty <&1 >/dev/null && sleep 1000"},
			TTY:  &Size{Height: 11, Width: 22},
		})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Master.Close()
	buf := make([]byte, 64)
	got := ""
	for !strings.Contains(got, "\n") {
		k, err := c.Master.Read(buf)
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got += string(buf[:k])
	}
	if got != "11 22\r\n" {
		t.Errorf("its terminal is of size %q", got)
	}
	if err := Resize(c.Master, Size{Height: 33, Width: 44}); err != nil {
		t.Error(err)
	}
	if ws, err := unix.IoctlGetWinsize(int(c.Master.Fd()), unix.TIOCGWINSZ); err != nil || ws.Row != 33 ||
		ws.Col != 44 {
		t.Errorf("after the resize: %+v, %v", ws, err)
	}
	c.SignalGroup(unix.SIGKILL)
	<-c.Done()
	if _, sig, err := c.Exit(); unix.Signal(sig) != unix.SIGKILL || err != nil {
		t.Errorf("its group was killed: %d, %v", sig, err)
	}
}

// A mistake of the helper's own ends the start, and with it the shim; nobody waits for ever.
func TestAStartWhoseThreadIsLostFails(t *testing.T) {
	g, _ := lifecycle.NewGroup(t.Context())
	// without a way back
	_, err := Start(g, Spec{Argv: []string{"/bin/true"}, Cgroup: "/", Visit: Visit{Join: []string{"/dev/null"}}})
	if !fault.Has(err, fault.Internal) {
		t.Errorf("it says %v", err)
	}
	if err := g.Wait(); err == nil {
		t.Error("the shim goes on")
	}
}

func TestAClosingShimStartsNothing(t *testing.T) {
	g, _ := lifecycle.NewGroup(t.Context())
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(g, Spec{Argv: []string{"/bin/true"}}); !fault.Has(err, fault.Unavailable) {
		t.Errorf("it says %v", err)
	}
}

// A thread that a child was born by is thrown away; the program's first thread cannot be, and would stay in the child's
// groups and without its descriptors for as long as the program runs.
func TestNoChildIsBornByTheMainThread(t *testing.T) {
	n := newNursery(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				c, _, err := n.start(Spec{Argv: []string{"/bin/true"}})
				if err != nil {
					t.Error(err)
					return
				}
				<-c.Done()
			}
		})
	}
	wg.Wait()
	// The files of a process are, to others, those of its first thread.
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), r.Fd())); err != nil {
		t.Errorf("the main thread has lost its descriptors: %v", err)
	}
}
