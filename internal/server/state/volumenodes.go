package state

import (
	"iter"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// VolumeNodes names the table of the nodes that were ever given a volume.
const VolumeNodes = "volume_nodes"

// RemembersNodes is the schema from which on it is kept which nodes were given a volume.
const RemembersNodes = 9

var volumeNodes = &table[volume.Given]{
	name:     VolumeNodes,
	key:      func(n *volume.Given) Key { return volumeNodeKey(n.StagingKey, n.Node) },
	stamp:    func(now, _ *volume.Given, index uint64) { now.Index = index },
	modified: func(n *volume.Given) uint64 { return n.Index },
}

func volumeNodeKey(k volume.StagingKey, on ids.Node) Key { return stagingKey(k).with(string(on)) }

// VolumeNode returns that a node was given a volume, or nil: it was not, for all that this state remembers.
func (s *Snap) VolumeNode(w *Watch, k volume.StagingKey, on ids.Node) *volume.Given {
	return volumeNodes.get(s, w, volumeNodeKey(k, on))
}

// VolumeNodesOf yields the nodes that were given a volume, by node.
func (s *Snap) VolumeNodesOf(w *Watch, k volume.StagingKey) iter.Seq[*volume.Given] {
	return volumeNodes.scan(s, w, stagingKey(k))
}

// RememberNode notes that a node was given a volume.
func (tx *Tx) RememberNode(k volume.StagingKey, on ids.Node) {
	if k.ExternalID == "" || !tx.Understands(RemembersNodes) || tx.VolumeNode(nil, k, on) != nil {
		return
	}
	volumeNodes.put(tx, &volume.Given{StagingKey: k, Node: on})
}

// rememberReports notes which nodes reported a volume before this state knew it.
func (tx *Tx) rememberReports(k volume.StagingKey) {
	if k.ExternalID == "" || !tx.Understands(RemembersNodes) {
		return
	}
	for i := range tx.InventoriesOf(nil, k) {
		tx.RememberNode(k, i.Node)
	}
	for h := range tx.InventoryHeads(nil) {
		if slices.ContainsFunc(h.Unknown, func(u volume.UnknownMount) bool { return u.Stages(k) }) {
			tx.RememberNode(k, h.Node)
		}
	}
}

// forgetNodes forgets who was given a volume when neither a record of it nor what a forgotten one left is there.
func (tx *Tx) forgetNodes(k volume.StagingKey) {
	if tx.Tombstone(nil, k) != nil {
		return
	}
	for range tx.VolumesByExternalID(nil, k.Plugin, k.ExternalID) {
		return
	}
	for _, n := range slices.Collect(tx.VolumeNodesOf(nil, k)) {
		volumeNodes.drop(tx, volumeNodes.key(n))
	}
}
