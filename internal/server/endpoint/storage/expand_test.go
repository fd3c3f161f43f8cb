package storage

import (
	"context"
	"testing"

	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// between is a log in which something else is written right before a command.
type between struct {
	fsm.Proposer
	first func()
}

// Propose implements fsm.Proposer.
func (b *between) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	if fn := b.first; fn != nil {
		b.first = nil
		fn()
	}
	return b.Proposer.Propose(ctx, cmd)
}

// TestTheLastOfTwoExpansionsCounts: given an expansion whose steps are stored while a larger size is asked for, when
// that is written, then it takes the place of the one under way, and nobody hears of a conflict. What is refused for
// another reason is.
func TestTheLastOfTwoExpansionsCounts(t *testing.T) {
	r := newRig(t)
	r.change(t, func(tx *state.Tx, v *volume.Volume) {
		tx.PutPlugin(&plugin.Record{
			ID:         "p",
			Negotiated: true,
			Controller: plugin.Capabilities{ControllerExpand: true},
		})
		v.Status.Capacity = 1000
	})
	ask := func(size int64) (*wire.VolumeWriteReply, error) {
		return r.volumeExpand(t.Context(), &wire.VolumeExpandRequest{Volume: r.vol, Min: size, Wait: 1})
	}
	if reply, err := ask(2000); err != nil || reply.Outcome != wire.Accepted {
		t.Fatalf("%+v, %v", reply, err)
	}
	r.cfg.Proposer = &between{Proposer: r.c, first: func() {
		r.change(t, func(_ *state.Tx, v *volume.Volume) { v.Status.ExpandSettled, v.Status.Executor = false, r.node })
	}}
	if reply, err := ask(3000); err != nil || reply.Outcome != wire.Accepted {
		t.Fatalf("%+v, %v", reply, err)
	}
	v := r.c.Store.Snapshot().Volume(nil, r.vol)
	if v.Spec.CapacityMin != 3000 || v.Status.WantedMin != 2000 || v.Status.Executor != r.node {
		t.Errorf("asked for are %d bytes, under way %d at %q", v.Spec.CapacityMin, v.Status.WantedMin,
			v.Status.Executor)
	}
	r.cfg.Proposer = &between{Proposer: r.c, first: func() {
		r.change(t, func(_ *state.Tx, v *volume.Volume) { v.Status.Phase = volume.PhaseDeleting })
	}}
	if reply, err := ask(4000); err == nil {
		t.Errorf("of a volume that is being deleted it says %+v, %v", reply, err)
	}
}

// Given a volume that an earlier version left with the size that its provider refused, when it is asked for the size
// that it has, then nothing asks for more any more.
func TestASizeThatWasRefusedIsTakenBack(t *testing.T) {
	r := newRig(t)
	r.change(t, func(_ *state.Tx, v *volume.Volume) {
		v.Status.Capacity, v.Spec.CapacityMin = 1000, 3000
		v.Status.LastError = volume.ExpansionRefused + "no"
	})
	if _, err := r.volumeExpand(t.Context(), &wire.VolumeExpandRequest{Volume: r.vol, Min: 1000, Wait: 1}); err != nil {
		t.Error(err)
	}
	if v := r.volume(); v.Spec.CapacityMin != 1000 || v.Status.Phase != volume.PhaseReady {
		t.Errorf("it asks for %d bytes and is %s", v.Spec.CapacityMin, v.Status.Phase)
	}
}

// change changes the volume.
func (r *rig) change(t *testing.T, fn func(*state.Tx, *volume.Volume)) {
	t.Helper()
	s := r.c.Store.Snapshot()
	at := s.Stamp()
	at.Index++
	r.c.Skip(1)
	if err := r.c.Store.Write(at, func(tx *state.Tx) error {
		v := *s.Volume(nil, r.vol)
		fn(tx, &v)
		tx.PutVolume(&v)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Who waits for an expansion may miss what the volume went through meanwhile; the answer is the same.
func TestTheEndOfAnExpansionIsReadFromWhatIsLeftOfIt(t *testing.T) {
	of := func(phase volume.Phase, wanted, has int64, err string) *volume.Volume {
		return &volume.Volume{
			Spec:   volume.Spec{CapacityMin: wanted},
			Status: volume.Status{Phase: phase, Capacity: has, LastError: err},
		}
	}
	const another = "another size of 2.9 KiB was asked for meanwhile"
	for what, test := range map[string]struct {
		asked, now       *volume.Volume
		outcome, refused string
	}{
		"under way": {asked: of("expanding", 4000, 1000, ""), now: of("expanding", 4000, 1000, "no room")},
		"done":      {asked: of("expanding", 4000, 1000, ""), now: of("ready", 4000, 4000, ""), outcome: "expanded"},
		"a smaller one under way": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("expanding", 3000, 1000, ""),
			refused: another,
		},
		"a smaller one done": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("ready", 3000, 3000, ""),
			refused: another,
		},
		"a smaller one refused": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("ready", 1000, 1000, volume.ExpansionRefused+"no"),
			refused: "no",
		},
		"a larger one done": {
			asked:   of("expanding", 2000, 1000, ""),
			now:     of("ready", 3000, 3000, ""),
			outcome: "expanded",
		},
		"a larger one under way": {asked: of("expanding", 2000, 1000, ""), now: of("expanding", 3000, 1000, "")},
		"a larger one under way, and large enough": {
			asked:   of("expanding", 2000, 1000, ""),
			now:     of("expanding", 3000, 2000, ""),
			outcome: "expanded",
		},
		"a larger one refused": {
			asked:   of("expanding", 2000, 1000, ""),
			now:     of("ready", 1000, 1000, volume.ExpansionRefused+"no"),
			refused: "no",
		},
		"the cancelling under way": {asked: of("expanding", 1000, 1000, ""), now: of("expanding", 1000, 1000, "")},
		"the cancelling, and another under way": {
			asked:   of("expanding", 1000, 1000, ""),
			now:     of("expanding", 3000, 1000, ""),
			refused: another,
		},
		"cancelled while a call is under way": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("expanding", 1000, 1000, ""),
			refused: "it was cancelled",
		},
		"cancelled too late": {
			asked:   of("expanding", 1000, 1000, ""),
			now:     of("ready", 1000, 3000, ""),
			outcome: "expanded",
		},
		"cancelled": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("ready", 1000, 1000, ""),
			refused: "it was cancelled",
		},
		"the cancelling": {asked: of("ready", 1000, 1000, ""), now: of("ready", 1000, 1000, ""), outcome: "cancelled"},
		"refused": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("ready", 1000, 1000, volume.ExpansionRefused+"no"),
			refused: "no",
		},
		"deleted": {
			asked:   of("expanding", 4000, 1000, ""),
			now:     of("deleting", 4000, 1000, ""),
			refused: "it is deleting",
		},
	} {
		if outcome, refused := expansionEnd(test.asked, test.now); outcome != test.outcome || refused != test.refused {
			t.Errorf("%s: %q, %q", what, outcome, refused)
		}
	}
}
