package allocs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/client/allocdir"
	"berth/internal/client/allocs"
	"berth/internal/client/csimanager"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/port/hostfs"
	"berth/internal/wire"
)

// Given an alloc with a file system of its own that has ended, when the agent ends and is to leave nothing, then the
// file system is unmounted, and that of an alloc that runs is not; the next run of the agent mounts it again, with what
// was written.
func TestTheDiskOfAnEndedAllocIsMountedWhileAnAgentRuns(t *testing.T) {
	var cfg allocs.Config
	a := tuned(t, func(c *allocs.Config) {
		c.Disks = allocdir.Image
		cfg = *c
	})
	a.Restore(lineage.Point{})
	stop := begin(t, a)
	ended, runs := given(), given()
	for _, b := range []alloc.Bundle{ended, runs} {
		b.Job.TaskGroups[0].EphemeralDisk = &job.EphemeralDisk{SizeMB: 10}
	}
	at := lineage.Point{Incarnation: "one", Mark: "m", Index: 1}
	apply := func(all ...alloc.Bundle) {
		t.Helper()
		if err := a.Apply(t.Context(), &wire.AllocSet{At: at, Bundles: all}); err != nil {
			t.Fatal(err)
		}
	}
	apply(ended, runs)
	dir := a.AllocDir(ended.Alloc.ID)
	file := filepath.Join(dir.SharedDir(), "data/kept")
	awaited(t, "both to run", func() bool {
		return a.Runner(ended.Alloc.ID).Report().ClientStatus == alloc.ClientRunning &&
			a.Runner(runs.Alloc.ID).Report().ClientStatus == alloc.ClientRunning
	})
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Runner(ended.Alloc.ID).Stop("a person said so", true); err != nil {
		t.Fatal(err)
	}
	awaited(t, "one to have ended", a.Runner(ended.Alloc.ID).Released)
	if !mounted(t, dir) {
		t.Error("what has ended cannot be read while the agent runs")
	}
	stop()
	if err := a.Disclose(); err != nil {
		t.Fatal(err)
	}
	if mounted(t, dir) || !mounted(t, a.AllocDir(runs.Alloc.ID)) {
		t.Errorf("mounted: of one that has ended %t, of one that runs %t", mounted(t, dir),
			mounted(t, a.AllocDir(runs.Alloc.ID)))
	}

	loaded, err := cfg.Store.Load()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Holdings = allocs.NewHoldings(allocs.NewTable(filepath.Dir(a.Dir()), loaded, cfg.Log), nil, nil)
	cfg.Holdings.Use(held{})
	next := allocs.New(cfg)
	next.Restore(at)
	stop = begin(t, next)
	awaited(t, "the file system to be mounted again", func() bool { return mounted(t, dir) })
	if text, err := os.ReadFile(file); err != nil || string(text) != "kept" {
		t.Errorf("it has %q, %v", text, err)
	}
	stop()
	if err := errors.Join(next.Disclose(), dir.Destroy()); err != nil {
		t.Error(err)
	}
}

// begin runs allocs until it is said to stop.
func begin(t *testing.T, a *allocs.Allocs) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("allocs", func() error { return a.Run(gctx) })
	return func() {
		t.Helper()
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func awaited(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func mounted(t *testing.T, d allocdir.Dir) bool {
	t.Helper()
	table, err := hostfs.ReadTableAnew()
	if err != nil {
		t.Fatal(err)
	}
	_, is := table.At(d.Path())
	return is
}

// Given an alloc that runs a plugin, then what it writes beside its socket counts for its disk.
func TestTheSocketDirectoryOfAPluginCounts(t *testing.T) {
	a := newAllocs(t)
	a.Restore(lineage.Point{})
	stop := begin(t, a)
	defer stop()
	b := given()
	group := b.Job.TaskGroups[0]
	group.EphemeralDisk = &job.EphemeralDisk{SizeMB: 10}
	group.Tasks[0].CSIPluginConfig = &job.CSIPluginConfig{ID: "p", Type: job.PluginNode}
	set := &wire.AllocSet{At: lineage.Point{Incarnation: "one", Mark: "m", Index: 1}, Bundles: []alloc.Bundle{b}}
	if err := a.Apply(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	all := a.Disks()
	want := csimanager.SocketDir(filepath.Dir(a.Dir()), b.Alloc.ID, "web")
	if len(all) != 1 || all[0].Beside["web's socket directory"] != want {
		t.Errorf("measured are %+v, and not %s", all, want)
	}
}
