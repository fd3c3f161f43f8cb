package node_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"berth/internal/port/csi"
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

// BenchmarkRestart is a restart of the node's keeper under published volumes, until each alloc has its volume again.
// The bar is one second under 1,000 of them, without a call that changes anything.
func BenchmarkRestart(b *testing.B) {
	for _, n := range []int{200, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, vols := many(b, n)
			eventually(b, "the start is written", func() bool { return !r.keeper.Dirty() })
			before := len(r.nodeCalls())
			for b.Loop() {
				r.restarted(vols)
			}
			if after := len(r.nodeCalls()); after != before {
				b.Errorf("the restarts made %d calls", after-before)
			}
			r.release(vols)
		})
	}
}
