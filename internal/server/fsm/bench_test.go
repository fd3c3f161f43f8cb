package fsm_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// BenchmarkApplyClaims is what one replica does for placements with a claim each, so many of them handed over together.
// It reports the processor's time, all threads', which other load on the machine leaves nearly alone.
func BenchmarkApplyClaims(b *testing.B) {
	for _, together := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("together=%d", together), func(b *testing.B) { applyClaims(b, together, 1) })
	}
	b.Run("nodes=5000", func(b *testing.B) { applyClaims(b, 128, 5000) })
}

func applyClaims(b *testing.B, together, nodes int) {
	const n = 10_000
	b.ReportAllocs()
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		store, entries := claimsToApply(b, n, nodes)
		machine := fsm.New(store)
		b.StartTimer()
		before := processorTime(b)
		for from := 0; from < n; from += together {
			for _, r := range machine.ApplyBatch(entries[from:min(n, from+together)]) {
				if err, failed := r.(error); failed {
					b.Fatal(err)
				}
			}
		}
		spent += processorTime(b) - before
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(n*b.N), "cpu-us/claim")
}

// claimsToApply is a state with so many volumes, and nodes that have reported what is mounted there, and the entries
// that claim each of the volumes.
func claimsToApply(b *testing.B, n, nodes int) (*state.Store, []raftlog.Entry) {
	b.Helper()
	c := localstate.New(b)
	on := aNode()
	c.Must(b, &fsm.NodeRegister{Node: on})
	for range nodes - 1 {
		other := aNode()
		c.Must(b, &fsm.NodeRegister{Node: other})
		c.Must(b, &fsm.InventoryApply{Node: other.ID, Full: true})
	}
	c.Must(b, &fsm.JobRegister{Job: aJob("db"), Seed: ids.New()})
	index := c.Store.Snapshot().Index()
	out := make([]raftlog.Entry, n)
	for i := range out {
		v := &volume.Volume{
			ID:  volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(fmt.Sprintf("v%d", i))},
			UID: ids.New(),
			Spec: volume.Spec{Plugin: "p", Capabilities: []volume.Capability{
				{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem},
			}},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: fmt.Sprintf("x%d", i)},
		}
		c.Must(b, &fsm.VolumePut{Volume: v})
		a := anAlloc(c, "db", on.ID)
		data, err := fsm.Encode(&fsm.PlanApply{
			Place:  []*alloc.Alloc{a},
			Claims: []*volume.Claim{aClaim(v.ID, a, volume.SingleNodeWriter, volume.Held)},
		}, time.Unix(1, 0))
		if err != nil {
			b.Fatal(err)
		}
		index = c.Store.Snapshot().Index()
		out[i] = raftlog.Entry{Data: data}
	}
	for i := range out {
		out[i].Index = index + uint64(i) + 1
	}
	return c.Store, out
}

// processorTime is what this process has used of the processor.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
