package quota_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/port/quota"
	"berth/internal/testkit/mountns"
	"berth/internal/testkit/projects"
)

var update = flag.Bool("update", false, "write testdata anew")

func TestMain(m *testing.M) { mountns.Main(m.Run) }

// directories are the directories of a fake kernel.
func directories(t *testing.T, names ...string) (quota.Projects, *projects.Kernel) {
	t.Helper()
	base := t.TempDir()
	for _, n := range names {
		if err := os.Mkdir(filepath.Join(base, n), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	k := projects.New()
	return quota.Projects{Base: base, Kernel: k}, k
}

// The calls of an alloc's life, word by word: what a kernel with quotas is asked, since the one at hand may have none.
func TestWhatTheKernelIsAsked(t *testing.T) {
	p, k := directories(t, "a", "b")
	step := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		fmt.Fprintf(&k.Log, "# %s\n", what)
	}
	k.Flag(t, filepath.Join(p.Base, "b"), 0x80) // a person's: no dumps
	step("^ is there what it takes?", p.Check())
	step("^ a: 300 MiB", p.Bound("a", 300<<20))
	step("^ b: 1 MiB and a byte", p.Bound("b", 1<<20+1))
	k.Used[quota.First] = projects.Counts{Bytes: 5 << 20, Files: 7}
	use, bounded, err := p.Used("a")
	step("^ a is measured", err)
	if !bounded || use.Bytes != 5<<20 || use.Files != 7 {
		t.Errorf("a is bounded: %v, takes %+v", bounded, use)
	}
	step("^ a goes", p.Release("a"))
	path := filepath.Join("testdata", "calls.txt")
	if *update {
		if err := os.WriteFile(path, []byte(k.Log.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if k.Log.String() != string(want) {
		t.Errorf("it is asked\n%s\nand not\n%s(-update writes the file anew)", k.Log.String(), want)
	}
}

// Given directories with projects, with leavings of one that went, and none, then each new one has its own.
func TestEachDirectoryHasAProjectOfItsOwn(t *testing.T) {
	p, k := directories(t, "a", "b", "c", "d")
	for _, n := range []string{"0", "z"} { // as the directory of images has
		if err := os.WriteFile(filepath.Join(p.Base, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.Used[quota.First+1] = projects.Counts{Bytes: 4096} // something deleted that is still open
	seen := map[uint32]string{}
	for _, n := range []string{"a", "b", "c"} {
		if err := p.Bound(n, 1<<20); err != nil {
			t.Fatal(err)
		}
		id := k.Of(t, filepath.Join(p.Base, n))
		if other, taken := seen[id]; taken || id < quota.First || id == quota.First+1 {
			t.Errorf("%s has project %d, which %q has", n, id, other)
		}
		seen[id] = n
	}
	before := k.Of(t, filepath.Join(p.Base, "a"))
	if err := p.Bound("a", 2<<20); err != nil || k.Of(t, filepath.Join(p.Base, "a")) != before ||
		k.Limits[before].Bytes != 2<<20 {
		t.Errorf("bounded again: %v, project %d, %+v", err, before, k.Limits[before])
	}
	if _, bounded, err := p.Used("d"); bounded || err != nil {
		t.Errorf("one without a project: %v, %v", bounded, err)
	}
	if _, bounded, err := p.Used("missing"); bounded || err != nil {
		t.Errorf("one that is not there: %v, %v", bounded, err)
	}
	if err := p.Release("missing"); err != nil {
		t.Error(err)
	}
}

// Given a directory that is being bounded, then nobody else bounds one beside it meanwhile, in this agent or another:
// both would find the same project free.
func TestOneDirectoryIsBoundedAtATime(t *testing.T) {
	p, k := directories(t, "a")
	base, err := os.Open(p.Base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = base.Close() }) // opened for reading
	asked := map[string]bool{}
	k.Fails = func(call string) error {
		asked[call] = true
		if err := unix.Flock(int(base.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("another may bound at %q: %v", call, err)
		}
		return nil
	}
	if err := p.Bound("a", 1<<20); err != nil || !asked["set attributes"] {
		t.Errorf("bounded: %v, asked for %v", err, asked)
	}
	if err := unix.Flock(int(base.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("after it nobody may: %v", err)
	}
}

// Given directories in a project that a person made for more than them, then its limit stays, and each has one of its
// own.
func TestAProjectOfOthersIsLeftAlone(t *testing.T) {
	p, k := directories(t, "a", "b")
	k.Limits[42] = projects.Counts{Bytes: 100 << 30, Files: 1 << 20}
	for _, n := range []string{"a", "b"} {
		path := filepath.Join(p.Base, n)
		k.Give(t, path, 42)
		if _, bounded, err := p.Used(n); bounded || err != nil {
			t.Errorf("%s counts as bounded: %v, %v", n, bounded, err)
		}
		if err := p.Release(n); err != nil {
			t.Error(err)
		}
		if err := p.Bound(n, 1<<20); err != nil {
			t.Fatal(err)
		}
		if id := k.Of(t, path); id < quota.First {
			t.Errorf("%s has project %d", n, id)
		}
	}
	if k.Limits[42].Bytes != 100<<30 || k.Of(t, filepath.Join(p.Base, "a")) == k.Of(t, filepath.Join(p.Base, "b")) {
		t.Errorf("limits %v", k.Limits)
	}
}

// A project without a limit would take everything: given a crash between the calls, then there is none, and the project
// is taken again.
func TestTheLimitComesBeforeTheProject(t *testing.T) {
	p, k := directories(t, "a", "b")
	k.Fails = func(call string) error {
		if call == "set attributes" {
			return unix.EIO
		}
		return nil
	}
	if err := p.Bound("a", 1<<20); err == nil {
		t.Fatal("it was given")
	}
	if k.Limits[quota.First].Bytes != 1<<20 || k.Of(t, filepath.Join(p.Base, "a")) != 0 {
		t.Errorf("limits %v, project %d", k.Limits, k.Of(t, filepath.Join(p.Base, "a")))
	}
	k.Fails = nil
	if err := p.Bound("b", 3<<20); err != nil || k.Of(t, filepath.Join(p.Base, "b")) != quota.First ||
		k.Limits[quota.First].Bytes != 3<<20 {
		t.Errorf("the next: %v, limits %v", err, k.Limits)
	}
}

func TestWhatIsNotEmptyIsNotBounded(t *testing.T) {
	p, k := directories(t, "a", "a/file")
	if err := p.Bound("a", 1<<20); !fault.Has(err, fault.Invalid) || len(k.Limits) > 0 {
		t.Errorf("%v, limits %v", err, k.Limits)
	}
}

// Without quotas that are on and hold, nothing is said to be held; and nothing is in the way of removing directories
// that were bounded when there were some.
func TestQuotasThatAreMissingOrOff(t *testing.T) {
	p, k := directories(t, "a")
	if err := p.Bound("a", 1<<20); err != nil {
		t.Fatal(err)
	}
	for what, state := range map[string]uint16{"off": 0, "counted only": 1 << 4, "of users": 1 | 2} {
		k.State = state
		err := p.Check()
		if !fault.Has(err, fault.Unsupported) || !strings.Contains(err.Error(), p.Base) ||
			!strings.Contains(err.Error(), "-o prjquota") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, errno := range []error{unix.ENOSYS, unix.ESRCH, unix.EOPNOTSUPP, unix.ENOTTY} {
		k.Fails = func(call string) error {
			if strings.HasSuffix(call, "limits") || call == "get state" {
				return errno
			}
			return nil
		}
		if err := p.Check(); !fault.Has(err, fault.Unsupported) {
			t.Errorf("%v: %v", errno, err)
		}
		if _, bounded, err := p.Used("a"); bounded || err != nil {
			t.Errorf("%v: bounded %v, %v", errno, bounded, err)
		}
		if err := p.Release("a"); err != nil {
			t.Errorf("%v: %v", errno, err)
		}
	}
	k.Fails = func(string) error { return unix.EIO }
	if err := p.Release("a"); err == nil {
		t.Error("an error of the disk was passed over")
	}
}

// This machine's kernel says whether it can, and does not fail in another way. Where it can, it is tried.
func TestThisMachineIsAsked(t *testing.T) {
	p := quota.Projects{Base: filepath.Join(t.TempDir(), "not", "yet")}
	err := p.Check()
	if fault.Has(err, fault.Unsupported) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(p.Base, "a")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.Bound("a", 1<<20); err != nil {
		t.Fatal(err)
	}
	use, bounded, err := p.Used("a")
	if err != nil || !bounded || use.Files != 1 {
		t.Errorf("takes %+v, bounded %v: %v", use, bounded, err)
	}
	if err := p.Release("a"); err != nil {
		t.Error(err)
	}
}

// The kernel's own records of attributes: xfs keeps projects without quotas, too.
func TestWhatIsMadeInADirectoryGetsItsProject(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	image, base := filepath.Join(dir, "image"), filepath.Join(dir, "mounted")
	if err := os.Mkdir(base, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"truncate", "-s", "400M", image}, {"mkfs.xfs", "-q", image}, {"mount", "-o", "loop", image, base},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(base, 0); err != nil {
			t.Error(err)
		}
	})
	k := projects.New()
	k.Attributes = quota.Machine
	p := quota.Projects{Base: base, Kernel: k}
	made := filepath.Join(base, "a", "sub")
	if err := os.Mkdir(filepath.Dir(made), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.Bound("a", 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(made, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := k.Of(t, made); got != quota.First {
		t.Errorf("what was made in it has project %d", got)
	}
	if use, bounded, err := p.Used("a"); err != nil || !bounded {
		t.Errorf("takes %+v: %v, %v", use, bounded, err)
	}
}
