package cgroup

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/internal/base/fault"
)

var update = flag.Bool("update", false, "rewrite golden files")

// recorder is a fake tree that writes down what is done to it.
type recorder struct {
	log    strings.Builder
	refuse string // the file that cannot be written
}

func (r *recorder) mkdir(path string) error {
	r.log.WriteString("mkdir " + path + "\n")
	return nil
}

func (r *recorder) write(path, value string) error {
	r.log.WriteString("write " + path + " " + value + "\n")
	if strings.HasSuffix(path, r.refuse) && r.refuse != "" {
		return syscall.EBUSY
	}
	return nil
}

func (r *recorder) exists(path string) bool { return !strings.Contains(path, "memsw") }

func TestLimitsOnAPureV2NodeAreWrittenSo(t *testing.T) {
	r := &recorder{}
	tree := &Tree{
		V2:          "/fake",
		Controllers: []string{"cpuset", "cpu", "io", "memory", "pids"},
		V1:          map[string]string{},
		ops:         r,
	}
	g := tree.Group("berth.slice", "11111111-2222-3333-4444-555555555555", "web.1")
	if err := g.Create(Limits{
		CPUShares: 1024,
		MemoryMax: 300 << 20,
		MemoryLow: 100 << 20,
		Cpuset:    "0-1",
		PIDs:      4096,
		IO:        []string{"8:0 rbps=1048576 wiops=100", "8:16 wbps=5"},
		Required:  true,
	}); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/v2.txt", r.log.String())
}

func TestLimitsOnAHybridNodeAreWrittenSo(t *testing.T) {
	r := &recorder{}
	tree := &Tree{V2: "/fake/unified", Controllers: []string{"hugetlb"}, ops: r,
		V1: map[string]string{"cpu": "/fake/cpu,cpuacct", "cpuacct": "/fake/cpu,cpuacct", "memory": "/fake/memory",
			"pids": "/fake/pids", "blkio": "/fake/blkio"}}
	g := tree.Group("berth.slice", "no uuid", "a task/with spaces.1")
	if err := g.Create(Limits{
		CPUShares: 1,
		MemoryMax: 10 << 20,
		PIDs:      50,
		Required:  true,
		IO:        []string{"8:0 rbps=1048576 wbps=7 riops=8 wiops=100", "8:16 wbps=5"},
	}); err != nil {
		t.Fatal(err)
	}
	join, back := g.Joins()
	for i := range join {
		r.log.WriteString("join " + join[i] + " and go back to " + back[i] + "\n")
	}
	golden(t, "testdata/hybrid.txt", r.log.String())
}

// A shim leaves what may limit the agent's unit. At the root of blkio nothing does, and each alloc would pay for it.
func TestAShimLeavesWhatLimitsItsAgent(t *testing.T) {
	tree := &Tree{ops: &recorder{}, V1: map[string]string{"cpu": "/fake/cpu,cpuacct", "cpuacct": "/fake/cpu,cpuacct",
		"cpuset": "/fake/cpuset", "blkio": "/fake/blkio"}}
	const others = "9:freezer:/unit\n8:cpuset:/unit\n7:cpu,cpuacct:/\n0::/unit\n"
	for own, want := range map[string][]string{
		others + "6:blkio:/":     {"/fake/cpu,cpuacct/tasks"},
		others + "6:blkio:/unit": {"/fake/cpu,cpuacct/tasks", "/fake/blkio/unit/tasks"},
	} {
		points, back := tree.leaves(own)
		if !slices.Equal(back, want) || len(points) != len(back) {
			t.Errorf("%q: it leaves %q, and goes back to %q, want %q", own, points, back, want)
		}
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

func TestALimitWithoutAControllerIsRefusedOnlyWhenRequired(t *testing.T) {
	tree := &Tree{V2: "/fake", V1: map[string]string{}, ops: &recorder{}}
	g := tree.Group("s", "a", "b")
	for controller, l := range map[string]Limits{
		"memory": {MemoryMax: 1, Required: true},
		"cpu":    {CPUShares: 5, Required: true},
		"cpuset": {Cpuset: "0", Required: true},
		"pids":   {PIDs: 5, Required: true},
		"io":     {IO: []string{"8:0 rbps=1"}, Required: true},
	} {
		err := g.Create(l)
		if !fault.Has(err, fault.Unsupported) || !strings.Contains(err.Error(), "task's "+controller+":") {
			t.Errorf("%s, required: %v", controller, err)
		}
	}
	if err := g.Create(Limits{MemoryMax: 1, CPUShares: 5, Cpuset: "0", IO: []string{"8:0 rbps=1"}}); err != nil {
		t.Errorf("not required: %v", err)
	}
}

// unthrottled is a tree without throttling: its kernel has blkio for other things.
type unthrottled struct{ recorder }

func (*unthrottled) exists(path string) bool { return !strings.Contains(path, "throttle") }

func TestANodeThatCannotBoundDevicesSaysWhatItLacks(t *testing.T) {
	for _, tree := range []*Tree{
		{V2: "/fake", Controllers: []string{"cpu", "memory"}, ops: &recorder{}},
		{V2: "/fake", V1: map[string]string{"blkio": "/fake/blkio"}, ops: &unthrottled{}},
	} {
		if err := tree.CheckIO(); !fault.Has(err, fault.Unsupported) || !strings.Contains(err.Error(), "io_max") {
			t.Errorf("%v: %v", tree.V1, err)
		}
	}
	for _, tree := range []*Tree{
		{V2: "/fake", Controllers: []string{"io"}, ops: &recorder{}},
		{V2: "/fake", V1: map[string]string{"blkio": "/fake/blkio"}, ops: &recorder{}},
	} {
		if err := tree.CheckIO(); err != nil {
			t.Errorf("%v, %v: %v", tree.Controllers, tree.V1, err)
		}
	}
}

// Given a bound that there is no file for, then no group is made without it.
func TestABoundThatNobodyKnowsIsRefused(t *testing.T) {
	tree := &Tree{V2: "/fake", V1: map[string]string{"blkio": "/fake/blkio"}, ops: &recorder{}}
	err := tree.Group("s", "a", "b").Create(Limits{IO: []string{"8:0 rbps=1 latency=5"}})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "latency") {
		t.Errorf("%v", err)
	}
}

func TestAGroupThatCannotPassControllersOnSaysWhy(t *testing.T) {
	tree := &Tree{
		V2:          "/fake",
		Controllers: []string{"memory"},
		V1:          map[string]string{},
		ops:         &recorder{refuse: "/fake/cgroup.subtree_control"},
	}
	err := tree.Group("s", "a", "b").Create(Limits{MemoryMax: 1, Required: true})
	if !fault.Has(err, fault.Unsupported) || !strings.Contains(err.Error(), "in a container") {
		t.Errorf("%v", err)
	}
}

func TestTheMountTableTellsVersions(t *testing.T) {
	tree := parse(`24 22 0:6 / /dev rw - devtmpfs devtmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:4 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cg\040roup/unified rw - cgroup2 cgroup2 rw
99 31 0:38 / /var/lib/container/cgroup rw - cgroup2 cgroup2 rw
`)
	want := map[string]string{"cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
		"memory": "/sys/fs/cgroup/memory", "name=systemd": "/sys/fs/cgroup/systemd"}
	if diff := cmp.Diff(want, tree.V1); diff != "" || tree.V2 != "/sys/fs/cg roup/unified" {
		t.Errorf("v2 at %q, v1: %s", tree.V2, diff)
	}
}

// What a shim is given is what it would have found: nothing of the mount table is read again, and no mount of another
// kind is handed on.
func TestWhatIsGivenIsWhatIsFound(t *testing.T) {
	found, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	name, table, _ := strings.Cut(found.Setting(), "=")
	for line := range strings.Lines(table) {
		if !strings.Contains(line, " - cgroup") {
			t.Errorf("this is handed on: %s", line)
		}
	}
	t.Setenv(name, table)
	given, err := Given()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(given, found) {
		t.Errorf("given %+v, found %+v", given, found)
	}
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "cgroup.controllers"), []byte("cpu"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(name, "29 28 0:26 / "+elsewhere+" rw - cgroup2 cgroup2 rw")
	if given, err = Given(); err != nil || given.V2 != elsewhere {
		t.Errorf("the mount table was asked, not what was given: %+v, %v", given, err)
	}
}

func TestNamesFromOutsideAreNoPathSegments(t *testing.T) {
	tree := &Tree{V2: "/fake", ops: &recorder{}}
	for _, name := range []string{"..", ".", "", "a/b", "../../x", "shim", "a b", "é", strings.Repeat("x", 300),
		"web.1"} {
		dir := tree.Group("s", name, name).Dir()
		if filepath.Clean(dir) != dir || strings.Count(dir, "/") != 4 || len(filepath.Base(dir)) > 120 ||
			filepath.Base(dir) == "shim" {
			t.Errorf("%q becomes %s", name, dir)
		}
		if back, err := tree.At(dir); err != nil || back.Dir() != dir {
			t.Errorf("%s is not found again: %v", dir, err)
		}
	}
	for _, dir := range []string{"/elsewhere/s/a/b", "/fake", "/fake/s", "/fake/s/a", "/fake/../x/y/z",
		"/fake/s/a/b/c"} {
		if _, err := tree.At(dir); !fault.Has(err, fault.Invalid) {
			t.Errorf("%s is taken for a task's group", dir)
		}
	}
}

func TestARealGroupIsKilledWatchedAndRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroups need root")
	}
	tree, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	slice := fmt.Sprintf("berth-cgroup-test-%d.slice", os.Getpid())
	g := tree.Group(slice, "alloc", "web.1")
	if err := g.Create(Limits{
		CPUShares: 100,
		MemoryMax: 64 << 20,
		MemoryLow: 32 << 20,
		Cpuset:    "0",
		Required:  true,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Remove(), tree.RemoveAlloc(slice, "alloc")); err != nil {
			t.Error(err)
		}
	})
	for _, rel := range []string{g.rel, g.leafRel()} {
		if limit, ok := g.value(filepath.Join(tree.V1["memory"], rel), "memory.limit_in_bytes",
			""); tree.V1["memory"] != "" && (!ok || limit != 64<<20) {
			t.Errorf("memory limit of %s: %d", rel, limit)
		}
		tcp := filepath.Join(tree.V1["memory"], rel)
		if limit, ok := g.value(tcp, tcpLimit, ""); ok && tree.V1["memory"] != "" && limit != 64<<20 {
			t.Errorf("limit of TCP buffers of %s: %d", rel, limit)
		}
	}
	leaf, err := os.Open(g.TaskLeaf())
	if err != nil {
		t.Fatal(err)
	}
	defer leaf.Close()
	cmd := exec.Command("sh", "-c", "sleep 1000 & sleep 1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(leaf.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if empty, err := g.Empty(); err != nil || empty {
		t.Errorf("empty %t, %v", empty, err)
	}
	if want, got := fmt.Sprintf("%d (sh)", cmd.Process.Pid), holders(g.Dir()); !slices.Contains(got, want) {
		t.Errorf("the group is held by %v, want %s among them", got, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond) // runs out: the group lives on
	defer cancel()
	if err := g.WaitEmpty(ctx); !fault.Has(err, fault.Timeout) || !strings.Contains(err.Error(), "still there: ") {
		t.Errorf("wait for a living group: %v", err)
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := g.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended well")
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Kill(), g.WaitEmpty(t.Context()), g.Remove()); err != nil {
		t.Errorf("what is gone is not an error: %v", err)
	}
}

// What a task would gain that came to write into its own group.
func TestATaskThatLiftsItsLimitStaysWithinTheOneAbove(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroups need root")
	}
	tree, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	slice := fmt.Sprintf("berth-cgroup-above-%d.slice", os.Getpid())
	g := tree.Group(slice, "alloc", "web.1")
	if err := g.Create(Limits{PIDs: 8, Required: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		errs := []error{g.Kill(), g.WaitEmpty(context.Background()), g.Remove(), tree.RemoveAlloc(slice, "alloc")}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	own := g.TaskLeaf()
	if v1 := tree.V1["pids"]; v1 != "" {
		own = filepath.Join(v1, g.leafRel())
	}
	leaf, err := os.Open(g.TaskLeaf())
	if err != nil {
		t.Fatal(err)
	}
	defer leaf.Close()
	cmd := exec.Command("sh", "-c", `echo $$ > "$0/cgroup.procs"; echo max > "$0/pids.max"; cat "$0/pids.max"
		for i in $(seq 200); do sleep 1000 & done 2>&1; echo forked them all`, own)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(leaf.Fd())}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // a shell that cannot fork ends with an error
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r) // to the end: the last sleep has ended
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out); !strings.HasPrefix(got, "max\n") || strings.Contains(got, "forked them all") {
		t.Errorf("with its own limit lifted: %q", got)
	}
}
