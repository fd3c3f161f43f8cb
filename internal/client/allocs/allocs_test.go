package allocs_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/allocs"
	"berth/internal/client/drivermanager"
	"berth/internal/client/localstate"
	"berth/internal/client/servers"
	"berth/internal/client/shim"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
	"berth/internal/port/hostfs"
	"berth/internal/testkit/mountns"
	"berth/internal/wire"
)

// host is a node and a way to servers that never answer.
type host struct{}

// Node implements taskrunner.Host.
func (host) Node() *node.Node { return &node.Node{ID: "n", Name: "n1"} }

// Dial implements servers.Dialer.
func (host) Dial(context.Context) (net.Conn, error) { return nil, errors.New("nobody answers") }

func TestMain(m *testing.M) { mountns.Main(m.Run) }

// newAllocs makes the allocs of a node that was never used.
func newAllocs(t *testing.T, users ...ids.Alloc) *allocs.Allocs { return withShims(t, nil, users...) }

// shims launches in a directory of its own.
func shims(t *testing.T) (l *shim.Launcher, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "shims") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if l, err = shim.New(shim.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	return l, dir
}

// withShims are allocs whose drivers launch by shims. Nobody has looked at the shims yet.
func withShims(t *testing.T, shims *shim.Launcher, users ...ids.Alloc) *allocs.Allocs {
	t.Helper()
	volumes := held{}
	for _, id := range users {
		volumes[id] = true
	}
	return tuned(t, func(cfg *allocs.Config) {
		if cfg.Shims = shims; shims != nil {
			table := cfg.Holdings.Table
			cfg.Holdings = allocs.NewHoldings(table, shim.NewKeeper(shim.KeeperConfig{
				Launcher: shims,
				Records:  table,
				Changed:  table.ShimsChanged,
			}), nil)
		}
		cfg.Holdings.Use(volumes)
	})
}

// tuned are allocs of a node that was never used, with what a test wants otherwise.
func tuned(t *testing.T, tune func(*allocs.Config)) *allocs.Allocs {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("directories of tasks hold mounts: this needs root")
	}
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	t.Cleanup(func() {
		table, err := hostfs.ReadTable()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range table.Beneath(dir) {
			if err := unix.Unmount(m.Path, 0); err != nil {
				t.Error(err)
			}
		}
	})
	store, err := localstate.Open(filepath.Join(dir, "client"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	loaded, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	drivers, err := drivermanager.New(drivermanager.Config{Drivers: []driver.Driver{mock.New()}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	link, err := servers.Connect(host{}, localstate.Identity{Node: "n"}, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() }) // it was never connected
	cfg := allocs.Config{
		Holdings: allocs.NewHoldings(allocs.NewTable(dir, loaded, log), nil, nil),
		Store:    store,
		Link:     link,
		Host:     host{},
		Drivers:  drivers,
		Log:      log,
	}
	cfg.Holdings.Use(held{})
	tune(&cfg)
	return allocs.New(cfg)
}

// held are the allocs for which the node holds a volume of plugin "p".
type held map[ids.Alloc]bool

// HeldBy implements allocs.Volumes.
func (h held) HeldBy(id ids.Alloc) []wire.HeldVolume {
	if !h[id] {
		return nil
	}
	return []wire.HeldVolume{{StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x"}}}
}

// Publications implements allocs.Volumes.
func (h held) Publications(id ids.Alloc) (out []volume.PublicationKey) {
	for _, v := range h.HeldBy(id) {
		out = append(out, volume.PublicationKey{StagingKey: v.StagingKey, Alloc: id})
	}
	return out
}

// Free implements allocs.Volumes.
func (h held) Free(key volume.PublicationKey) (bool, string) {
	return !h[key.Alloc], "the plugin is away"
}

// Changed implements allocs.Volumes: nothing does.
func (held) Changed() <-chan struct{} { return nil }

// given is an alloc of one task as the servers send it.
func given() alloc.Bundle {
	task := &job.Task{Name: "web", Driver: "mock_driver", Resources: &job.Resources{CPU: 1, MemoryMB: 10}}
	j := &job.Job{
		ID:         "web",
		Namespace:  ids.DefaultNamespace,
		Type:       job.TypeService,
		TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{task}}},
	}
	return alloc.Bundle{Job: j, Alloc: &alloc.Alloc{
		ID:            ids.Alloc(ids.New()),
		Namespace:     j.Namespace,
		Job:           j.ID,
		TaskGroup:     "g",
		DesiredStatus: alloc.DesiredRun,
		ClientStatus:  alloc.ClientPending,
	}}
}

// Given a set of the servers that arrives before the allocs run, as on a busy machine, when they do, then each alloc of
// it is run, once: two runs of one alloc start its tasks beside each other.
func TestASetThatComesFirstIsRunOnce(t *testing.T) {
	a := newAllocs(t)
	a.Restore(lineage.Point{})
	at := lineage.Point{Incarnation: "one", Mark: "m", Index: 1}
	early, late := given(), given()
	apply := func(all ...alloc.Bundle) {
		t.Helper()
		if err := a.Apply(t.Context(), &wire.AllocSet{At: at, Bundles: all}); err != nil {
			t.Fatal(err)
		}
	}
	apply(early)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	apply(early, late)
	apply(early, late, given()) // there is room for one that is not run yet: late was taken up
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]alloc.Bundle{"early": early, "late": late} {
		received := 0
		for _, e := range a.Runner(b.Alloc.ID).Report().TaskStates["web"].Events {
			if e.Type == alloc.EventReceived {
				received++
			}
		}
		if received != 1 {
			t.Errorf("the one that came %s was taken up %d times", name, received)
		}
	}
}

// Given what the servers name, then an alloc that runs is taken up; one that has ended is not, nor one whose directory
// is here without a record: whether it ran before nobody knows.
func TestWhatIsTakenUp(t *testing.T) {
	a := newAllocs(t)
	lost := given()
	if err := os.MkdirAll(filepath.Join(a.Dir(), string(lost.Alloc.ID)), 0o700); err != nil {
		t.Fatal(err)
	}
	a.Restore(lineage.Point{})
	runs, ended := given(), given()
	ended.Alloc.ClientStatus = alloc.ClientComplete
	set := &wire.AllocSet{
		At:      lineage.Point{Incarnation: "one", Mark: "m", Index: 1},
		Bundles: []alloc.Bundle{lost, ended, runs},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	if err := a.Apply(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		bundle      alloc.Bundle
		taken, gone bool
	}{
		"runs":               {runs, true, false},
		"has ended":          {ended, false, true},
		"has no record here": {lost, false, true}, // for nothing here launches any
	} {
		id := c.bundle.Alloc.ID
		if taken := a.Runner(id) != nil; taken != c.taken || a.Known(id) != c.taken {
			t.Errorf("one that %s is taken up: %v", name, taken)
		}
		if gone, why := a.ProcessesGone(id); gone != c.gone {
			t.Errorf("the processes of one that %s are gone: %v, %s", name, gone, why)
		}
	}
	if !a.Orphaned(lost.Alloc.ID) || a.Orphaned(runs.Alloc.ID) || a.Orphaned(ended.Alloc.ID) {
		t.Error("whose record is lost is an orphan, and nobody else")
	}
	if _, err := a.Find(ended.Alloc.ID); !fault.Has(err, fault.NotFound) {
		t.Errorf("what was not taken up is found: %v", err)
	}
}

// Given an orphan that runs a storage plugin of which an adopted alloc has a volume, then it is not ended before that,
// or before another instance of the plugin runs here: the volume could not be released.
func TestAPluginThatAnotherNeedsIsNotEnded(t *testing.T) {
	user := given()
	orphan, other := given(), given()
	for _, b := range []alloc.Bundle{orphan, other} {
		b.Job.TaskGroups[0].Tasks[0].CSIPluginConfig = &job.CSIPluginConfig{ID: "p", Type: job.PluginNode}
	}
	a := newAllocs(t, user.Alloc.ID)
	a.Restore(lineage.Point{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	apply := func(mark string, all ...alloc.Bundle) {
		t.Helper()
		at := lineage.Point{Incarnation: "one", Mark: mark, Index: 1}
		if err := a.Apply(t.Context(), &wire.AllocSet{At: at, Bundles: all}); err != nil {
			t.Fatal(err)
		}
	}
	apply("one", user, orphan)
	for _, b := range []alloc.Bundle{user, orphan} { // of an orphan nothing is started
		deadline := time.Now().Add(time.Minute)
		for a.Runner(b.Alloc.ID).Report().ClientStatus != alloc.ClientRunning {
			if time.Now().After(deadline) {
				t.Fatal("an allocation does not run")
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	for _, reason := range []string{"nobody knows why", "their state was emptied"} { // what holds now is said
		a.KeepAll(reason)
		if o := a.Runner(orphan.Alloc.ID).Orphan(); o == nil || o.Reason != reason {
			t.Errorf("kept because %s: %+v", reason, o)
		}
	}
	apply("two", user) // the servers know it again
	err := a.EndOrphan(t.Context(), orphan.Alloc.ID)
	adopt, stop := "orphans adopt "+ids.Short(orphan.Alloc.ID), "alloc stop "+ids.Short(user.Alloc.ID)
	for _, way := range []string{adopt, stop} {
		if f := (*fault.Error)(nil); !errors.As(err, &f) || f.Kind != fault.Conflict || !strings.Contains(f.Hint, way) {
			t.Errorf("ended while it is needed: %v; it names no %q", err, way)
		}
	}
	apply("two", other)
	if err := a.EndOrphan(t.Context(), orphan.Alloc.ID); err != nil {
		t.Errorf("another instance serves the volume: %v", err)
	}
}

// Given an alloc of which the record is lost, and a shim that cannot be asked to end what it holds, when a person ends
// the alloc, then that is refused, and its directory and what speaks of its processes stay.
func TestAnUnrecordedAllocWhoseProcessesDoNotEndIsKept(t *testing.T) {
	launcher, dir := shims(t)
	a := withShims(t, launcher)
	id := ids.Alloc(ids.New())
	path := a.AllocDir(id).Path()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, string(id)+".sock")
	if err := os.Symlink(socket, socket); err != nil { // nobody knows whether a shim is behind it
		t.Fatal(err)
	}
	a.Restore(lineage.Point{})
	if err := a.EndOrphan(t.Context(), id); err == nil || !strings.Contains(err.Error(), "end the processes of alloc") {
		t.Errorf("ended, and its processes may live: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("its directory is gone: %v", err)
	}
	if gone, _ := a.ProcessesGone(id); gone {
		t.Error("its processes count as gone")
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	// Now it can be ended, but the servers have to hear of that, or they would have it run again.
	if err := a.EndOrphan(t.Context(), id); !fault.Has(err, fault.Unavailable) {
		t.Errorf("the servers did not hear of it: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("its directory is gone: %v", err)
	}
}

// kept is what drivers keep by themselves.
type kept map[ids.Alloc]bool

func (k kept) Gone(id ids.Alloc) (bool, string) { return !k[id], "a driver has it" }

func (k kept) Drop(_ context.Context, id ids.Alloc) error {
	delete(k, id)
	return nil
}

// TestADriverThatKeepsTasksIsAskedForThem: given an alloc of which the node has no record, and whose task a driver
// keeps without a shim, then it is not gone before that says so.
func TestADriverThatKeepsTasksIsAskedForThem(t *testing.T) {
	const id ids.Alloc = "11111111-1111-4111-8111-111111111111"
	drivers := kept{id: true}
	var h *allocs.Holdings
	tuned(t, func(cfg *allocs.Config) {
		cfg.Holdings = allocs.NewHoldings(cfg.Holdings.Table, nil, drivers)
		cfg.Holdings.Use(held{})
		h = cfg.Holdings
	}).Restore(lineage.Point{})
	if gone, why := h.ProcessesGone(id); gone || why != "a driver has it" {
		t.Errorf("gone: %v, %q", gone, why)
	}
	if err := drivers.Drop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if gone, why := h.ProcessesGone(id); !gone {
		t.Errorf("it is not gone: %s", why)
	}
}
