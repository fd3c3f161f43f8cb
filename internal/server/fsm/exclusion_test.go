package fsm_test

import (
	"fmt"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/scheduler/filter"
	"berth/internal/server/fsm"
	"berth/internal/server/planner"
	"berth/internal/testkit/localstate"
)

// TestTheSchedulerAndTheStateShareOneLawOfExclusion: as what the ledger lets a claim begin, the replicated state takes
// it, and as nothing else. One claim is there, or two; one more is asked for.
func TestTheSchedulerAndTheStateShareOneLawOfExclusion(t *testing.T) {
	modes := []volume.AccessMode{
		volume.SingleNodeWriter,
		volume.SingleNodeReader,
		volume.MultiNodeReader,
		volume.MultiNodeSingleWriter,
		volume.MultiNodeMultiWriter,
	}
	for _, mode := range modes {
		for bits := range 32 {
			is := volume.Held
			if bits&1 > 0 {
				is = volume.Releasing
			}
			s := sharing{
				mode:   mode,
				state:  is,
				reads:  bits&2 > 0 || mode.ReaderOnly(),
				asks:   bits&4 > 0 || mode.ReaderOnly(),
				same:   bits&8 > 0,
				queued: bits&16 > 0,
			}
			t.Run(fmt.Sprintf("%+v", s), s.play)
		}
	}
}

// sharing is a volume with a claim, of an alloc that is ending if it is releasing, and one more that is asked for.
type sharing struct {
	mode        volume.AccessMode
	state       volume.ClaimState
	reads, asks bool
	same        bool // node
	queued      bool // a writer waits behind the claim, on the other node
}

func (x sharing) play(t *testing.T) {
	c := localstate.New(t)
	here, there := aNode(), aNode()
	c.Must(t, &fsm.NodeRegister{Node: here})
	c.Must(t, &fsm.NodeRegister{Node: there})
	v := withVolume(t, c, x.mode)
	register(t, c, aJob("db"))
	use := func(on ids.Node, is volume.ClaimState, reads bool) error {
		a := anAlloc(c, "db", on)
		claim := aClaim(v, a, x.mode, is)
		claim.ReadOnly = reads
		_, _, err := c.Propose(t.Context(), &fsm.PlanApply{Place: []*alloc.Alloc{a}, Claims: []*volume.Claim{claim}})
		return err
	}
	if err := use(here.ID, volume.Held, x.reads); err != nil {
		t.Fatal(err)
	}
	if x.state == volume.Releasing {
		release(t, c, v)
	}
	if x.queued {
		if err := use(there.ID, volume.Queued, x.reads); err != nil {
			t.Fatal(err)
		}
	}
	on := there.ID
	if x.same {
		on = here.ID
	}
	ask := &job.VolumeRequest{
		Type:           job.VolumeTypeCSI,
		AccessMode:     string(x.mode),
		AttachmentMode: string(volume.FileSystem),
		ReadOnly:       x.asks,
	}
	admitted := filter.NewLedger(planner.ViewOf(c.Store.Snapshot()).Volumes).Admit(ask, v, on)
	switch err := use(on, volume.Held, x.asks); {
	case admitted.State == volume.Held && err != nil:
		t.Errorf("the scheduler gives it, the state refuses: %v", err)
	case admitted.State != volume.Held && !fault.Has(err, fault.Busy):
		t.Errorf("the scheduler says %q (%+v), the state says %v", admitted.State, admitted.Refused, err)
	case admitted.State == volume.Queued:
		if err := use(on, volume.Queued, x.asks); err != nil {
			t.Errorf("the scheduler lets it wait, the state refuses: %v", err)
		}
	}
}

// release turns every claim of a volume to releasing and ends the allocs, as nodes report it.
func release(t *testing.T, c *localstate.Cluster, id volume.ID) {
	t.Helper()
	v := c.Store.Snapshot().Volume(nil, id).Staging()
	var ended []*alloc.Alloc
	for claim := range c.Store.Snapshot().ClaimsOf(nil, v) {
		ended = append(ended, &alloc.Alloc{ID: claim.Alloc, Node: claim.Node, ClientStatus: alloc.ClientComplete})
	}
	c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(), Allocs: ended})
	for claim := range c.Store.Snapshot().ClaimsOf(nil, v) {
		if claim.State != volume.Releasing {
			t.Fatalf("the claim is %s", claim.State)
		}
	}
}

func TestAClaimWithOtherMountOptionsIsNotCommitted(t *testing.T) {
	c := localstate.New(t)
	n := aNode()
	c.Must(t, &fsm.NodeRegister{Node: n})
	v := withVolume(t, c, volume.MultiNodeMultiWriter)
	register(t, c, aJob("db"))
	use := func(flags ...string) error {
		a := anAlloc(c, "db", n.ID)
		claim := aClaim(v, a, volume.MultiNodeMultiWriter, volume.Held)
		claim.MountOptions = &volume.MountOptions{MountFlags: flags}
		_, _, err := c.Propose(t.Context(), &fsm.PlanApply{Place: []*alloc.Alloc{a}, Claims: []*volume.Claim{claim}})
		return err
	}
	if err := use("noatime", "nodev"); err != nil {
		t.Fatal(err)
	}
	if err := use("nodev", "noatime"); err != nil {
		t.Errorf("the same flags in another order: %v", err)
	}
	if err := use("noatime"); !fault.Has(err, fault.Conflict) {
		t.Errorf("other flags: %v", err)
	}
}
