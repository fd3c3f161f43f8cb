package storage

import (
	"context"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// away are nodes that cannot be reached.
type away struct{}

// NodeConn implements controllers.Nodes.
func (away) NodeConn(ids.Node) (wire.Conn, error) {
	return nil, fault.New(fault.Unavailable, "reach", "the node", "it is away")
}

// Await implements controllers.Nodes.
func (a away) Await(_ context.Context, id ids.Node) (wire.Conn, error) { return a.NodeConn(id) }

// Given the word of a person that nothing is left of a volume on a node, when the node has reported that it has it, or
// wants it, then the node is not even asked; it is when its report leaves that open.
func TestAWordIsRefusedWhileTheNodesReportShowsTheVolume(t *testing.T) {
	publication := func(is volume.Presence, wanted bool) volume.InventoryEntry {
		return volume.InventoryEntry{Staging: volume.Uncertain,
			Publications: []volume.InventoryPublication{{Presence: is, Wanted: wanted}}}
	}
	for what, c := range map[string]struct {
		entry volume.InventoryEntry
		kind  fault.Kind // of what the word comes to; Unavailable: the node was asked
	}{
		"it is staged":        {volume.InventoryEntry{Staging: volume.Present}, fault.Conflict},
		"it is published":     {publication(volume.Present, false), fault.Conflict},
		"it is wanted":        {publication(volume.Absent, true), fault.Conflict},
		"it may be published": {publication(volume.Uncertain, false), fault.Unavailable},
		"it may be staged":    {volume.InventoryEntry{Staging: volume.Uncertain}, fault.Unavailable},
		"it is another's": {volume.InventoryEntry{StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "y"},
			Staging: volume.Uncertain}, fault.NotFound},
	} {
		r := newRig(t)
		r.cfg.Nodes = away{}
		if c.entry.ExternalID == "" {
			c.entry.StagingKey = r.volume().Staging()
		}
		r.reports(t, r.node, c.entry)
		_, err := r.volumeRelease(t.Context(),
			&wire.VolumeReleaseRequest{Volume: r.vol, Node: r.node, Reason: "looked", By: "me"})
		if !fault.Has(err, c.kind) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
