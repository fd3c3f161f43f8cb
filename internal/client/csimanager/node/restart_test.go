package node_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
)

// many are published volumes on a node, each for an alloc of its own.
func many(t testing.TB, n int) (*rig, []csi.Volume) {
	t.Helper()
	p, v := startPlugin(t)
	r := newRig(t, p)
	vols := []csi.Volume{v}
	for i := 1; i < n; i++ {
		vols = append(vols, makeVolume(t, p, fmt.Sprint("vol-", i)))
	}
	for i := 0; i < n; i += 50 { // a busy machine mounts no thousand of them within a minute
		r.some(vols, i, min(i+50, n))
	}
	return r, vols
}

// all has every alloc ask for its volume, as after a restart, and waits until each has it.
func (r *rig) all(vols []csi.Volume) { r.some(vols, 0, len(vols)) }

func (r *rig) some(vols []csi.Volume, from, to int) {
	var wg sync.WaitGroup
	for i := from; i < to; i++ {
		wg.Go(func() {
			if _, err := r.Mount(r.t.Context(), use(vols[i], fmt.Sprint("a", i))); err != nil {
				r.t.Error(err)
			}
		})
	}
	wg.Wait()
}

// release undoes them all.
func (r *rig) release(vols []csi.Volume) {
	for i := 0; i < len(vols); i += 50 {
		var wg sync.WaitGroup
		for j := i; j < min(i+50, len(vols)); j++ {
			wg.Go(func() { r.unmount(vols[j], fmt.Sprint("a", j)) })
		}
		wg.Wait()
	}
	r.atRest()
}

// restarted begins another run of the agent, until every alloc has its volume.
func (r *rig) restarted(vols []csi.Volume) {
	r.stop()
	r.open()
	r.all(vols)
}

// TestARestartUnderManyVolumesCallsNothing: what is published is found in the mount table; no call changes anything.
func TestARestartUnderManyVolumesCallsNothing(t *testing.T) {
	r, vols := many(t, 40)
	eventually(t, "the start is written", func() bool { return !r.keeper.Dirty() })
	before := r.nodeCalls()
	r.restarted(vols)
	if after := r.nodeCalls(); !slices.Equal(after, before) {
		t.Errorf("the restart made %d calls: %v", len(after)-len(before), after[len(before):])
	}
	r.release(vols)
}

// likes are published volumes on a node, each for an alloc of its own. One is mounted by the plugin; the others are
// made to its likeness, in the journal, at their paths and in the mount table, for a plugin takes long to mount many.
func likes(t testing.TB, n int) (*rig, []csi.Volume) {
	t.Helper()
	p, v := startPlugin(t)
	r := newRig(t, p)
	r.mount(v, "a0")
	eventually(t, "the start is written", func() bool { return !r.keeper.Dirty() })
	r.stop()
	store, err := kv.Open(filepath.Join(r.dir, "kv"), codec)
	if err != nil {
		t.Fatal(err)
	}
	var first *entry.Entry
	if err := store.View(func(tx *kvTx) error {
		return kv.All(tx, "csi-volumes", func(_ string, e *entry.Entry) error { first = e; return nil },
			func(_ string, err error) error { return err })
	}); err != nil || first == nil {
		t.Fatalf("the journal has %v, %v", first, err)
	}
	vols, made := []csi.Volume{v}, []*entry.Entry{}
	for i := 1; i < n; i++ {
		vols = append(vols, csi.Volume{ID: fmt.Sprint("like-", i), Capacity: v.Capacity, Context: v.Context})
		made = append(made, r.like(first, vols[i].ID, ids.Alloc(fmt.Sprint("a", i))))
	}
	table, err := hostfs.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Update(func(tx *kvTx) error {
		for _, e := range made {
			e.Staging.Mounts = evidence.Beneath(table, e.Staging.HostPath)
			for _, p := range e.Pubs {
				if p.Device, _, err = evidence.Target(table, p.HostPath, false); err != nil {
					return err
				}
			}
			if err := tx.Put("csi-volumes", entry.StoreKey(e.Key), e); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	p.Tell(func(f *oracle.Facts) {
		f.Rest = oracle.None[oracle.Rest]("the plugin has not made what is left, and the test takes it away itself")
	})
	r.open()
	r.all(vols)
	eventually(t, "the start is written", func() bool { return !r.keeper.Dirty() })
	return r, vols
}

// like makes the paths and mounts of a volume that is staged and published as another is.
func (r *rig) like(first *entry.Entry, id string, alloc ids.Alloc) *entry.Entry {
	r.t.Helper()
	e := first.Clone()
	e.Key.ExternalID = id
	e.Staging.HostPath = filepath.Join(r.base(), volume.StagingTail(id))
	e.Staging.TaskPath, e.Staging.Own = e.Staging.HostPath, nil
	p := e.Pubs["a0"]
	p.HostPath = filepath.Join(r.base(), evidence.TargetTail(id, alloc))
	p.TaskPath, p.Own = p.HostPath, nil
	e.Pubs = map[ids.Alloc]*entry.Publication{alloc: p}
	for _, path := range []string{e.Staging.HostPath, filepath.Dir(p.HostPath), p.HostPath} {
		if err := hostfs.MakeDir(path); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, of := range []ids.Alloc{"", alloc} {
		if err := evidence.WriteIDFile(codec, e, of); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, path := range []string{e.Staging.HostPath, p.HostPath} {
		if err := unix.Mount(r.p.Dir, path, "", unix.MS_BIND, ""); err != nil {
			r.t.Fatal(err)
		}
	}
	return e
}

// TestARestartUnderAThousandVolumesCallsNothing: what is published is found in the mount table; no call changes
// anything.
func TestARestartUnderAThousandVolumesCallsNothing(t *testing.T) {
	r, vols := likes(t, 1000)
	before := r.nodeCalls()
	r.restarted(vols)
	if after := r.nodeCalls(); !slices.Equal(after, before) {
		t.Errorf("the restart made %d calls: %v", len(after)-len(before), after[len(before):])
	}
	if got := len(r.keeper.Publications("a999")); got != 1 {
		t.Errorf("the last alloc has %d publications", got)
	}
	r.unmount(vols[0], "a0")
}

// BenchmarkRestart is a restart of the node's keeper, its journal, its connection to the plugin and its reports, under
// published volumes, until each alloc has its volume again. The bar is one second under 1,000 of them, without a call
// that changes anything.
func BenchmarkRestart(b *testing.B) {
	for _, n := range []int{250, 1000} {
		b.Run(fmt.Sprintf("volumes=%d", n), func(b *testing.B) {
			r, vols := likes(b, n)
			before := len(r.nodeCalls())
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				r.restarted(vols)
				took = append(took, time.Since(begin))
			}
			if after := len(r.nodeCalls()); after != before {
				b.Errorf("the restarts made %d calls", after-before)
			}
			r.unmount(vols[0], "a0")
			slices.Sort(took)
			for name, d := range map[string]time.Duration{"min-ms": took[0], "p50-ms": took[len(took)/2],
				"max-ms": took[len(took)-1]} {
				b.ReportMetric(float64(d)/float64(time.Millisecond), name)
			}
		})
	}
}
