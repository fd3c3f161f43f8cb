package filter

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/volume"
)

// TestReadersOfOneNodeShareIt: the ledger takes readers of single-node-reader-only for rivals only across nodes, as the
// replicated state does.
func TestReadersOfOneNodeShareIt(t *testing.T) {
	id := volume.ID{ID: "v"}
	r := &job.VolumeRequest{
		Type:           job.VolumeTypeCSI,
		AccessMode:     string(volume.SingleNodeReader),
		AttachmentMode: string(volume.FileSystem),
		ReadOnly:       true,
	}
	running, stopping := &alloc.Alloc{DesiredStatus: alloc.DesiredRun}, &alloc.Alloc{DesiredStatus: alloc.DesiredStop}
	type place struct {
		alloc string
		node  ids.Node
		is    volume.ClaimState
		a     *alloc.Alloc
	}
	for _, c := range []struct {
		name           string
		present        []place
		here, there    volume.ClaimState // how a claim begins; empty: it is refused
		refusedOnEvery bool
	}{
		{"a free volume", nil, volume.Held, volume.Held, false},
		{"a reader is here", []place{{"a", "here", volume.Held, running}}, volume.Held, "", false},
		{"two readers are here", []place{{"a", "here", volume.Held, running}, {"b", "here", volume.Held, running}},
			volume.Held, "", false},
		{"a reader here is ending", []place{{"a", "here", volume.Held, stopping}}, volume.Held, volume.Queued, false},
		{"a reader here is releasing it", []place{{"a", "here", volume.Releasing, nil}}, volume.Held, volume.Queued,
			false},
		{"one here is releasing it, the next one waits there",
			[]place{{"a", "here", volume.Releasing, nil}, {"b", "there", volume.Queued, running}}, "", "", true},
	} {
		s := newStored().put(volume.SingleNodeReader)
		for _, p := range c.present {
			s.user(p.alloc, volume.SingleNodeReader, true, p.is, p.a)
			s.claims[len(s.claims)-1].Node = p.node
			s.volumes["v"].Status.AccessMode, s.volumes["v"].Status.AttachmentMode = volume.SingleNodeReader,
				volume.FileSystem
		}
		l := NewLedger(s)
		for node, want := range map[ids.Node]volume.ClaimState{"here": c.here, "there": c.there} {
			g := l.Admit(r, id, node)
			if g.State != want || (g.Refused != nil) != (want == "") {
				t.Errorf("%s: on node %s a claim begins as %q (%+v), want %q", c.name, node, g.State, g.Refused, want)
			}
			if g.Refused != nil && !strings.Contains(g.Refused.Reason, "users on one node at a time") {
				t.Errorf("%s: on node %s: %s", c.name, node, g.Refused.Reason)
			}
		}
		if got := l.Refused(r, id); (got != nil) != c.refusedOnEvery {
			t.Errorf("%s: refused on every node: %+v", c.name, got)
		}
	}
}
