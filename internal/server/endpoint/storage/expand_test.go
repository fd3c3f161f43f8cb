package storage

import (
	"context"
	"strings"
	"testing"
	"time"

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

// TestAnExpansionEndsWithTheFileSystems: given a volume in use that its provider has made larger, then its expansion
// goes on until the node has grown what it has of it: before that, or when the plugin refuses to grow it so, the answer
// says what the provider has, and which node follows, and why. Who named no time hears the provider's end, with a
// warning.
func TestAnExpansionEndsWithTheFileSystems(t *testing.T) {
	const refusal = volume.GrowthRefused + "ext4 cannot grow while it is mounted"
	for name, c := range map[string]struct {
		entry   volume.InventoryEntry
		wait    time.Duration
		outcome string
		says    string
	}{
		"nothing heard": {volume.InventoryEntry{Staging: volume.Present}, 1, wire.Accepted, "has not reported yet"},
		"failed": {volume.InventoryEntry{
			Staging:   volume.Present,
			LastError: "expand: no",
			NextTry:   time.Unix(60, 0),
		}, 1, wire.Accepted, "follows: expand: no; next try at 1970-01-01T00:01:00Z"},
		"refused": {volume.InventoryEntry{Staging: volume.Present, LastError: refusal}, time.Hour, wire.Accepted,
			"follows: " + refusal},
		"refused, no time": {volume.InventoryEntry{Staging: volume.Present, LastError: refusal}, 0, "expanded",
			"follows: " + refusal},
		"grown":      {volume.InventoryEntry{Staging: volume.Present, ExpandedTo: 2000}, time.Hour, "expanded", ""},
		"not staged": {volume.InventoryEntry{LastError: refusal}, time.Hour, "expanded", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			asked := *r.volume()
			asked.Spec.CapacityMin, asked.Status.Capacity = 2000, 1000
			asked.Status.Phase = volume.PhaseExpanding
			r.change(t, func(tx *state.Tx, v *volume.Volume) {
				v.Spec.CapacityMin, v.Status.Capacity = 2000, 2000
				v.Status.NodeExpandPending = true
				c.entry.StagingKey = v.Staging()
				tx.PutInventoryEntry(r.node, c.entry)
			})
			reply, err := r.awaitExpansion(t.Context(), &asked, c.wait)
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(append(reply.Warnings, reply.Waits), "; ")
			if reply.Outcome != c.outcome || (said == "; " || said == "") != (c.says == "") ||
				!strings.Contains(said, c.says) ||
				c.says != "" && !strings.Contains(said, "the provider's volume has 2 KiB; the file system on node") {
				t.Errorf("%q: %q", reply.Outcome, said)
			}
		})
	}
}
