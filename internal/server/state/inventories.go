package state

import (
	"iter"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// Inventories names the table of what nodes report of their stagings and publications.
const Inventories = "inventories"

var (
	inventories = &table[Inventory]{
		name: Inventories,
		key:  func(i *Inventory) Key { return inventoryKey(i.Node, i.Entry.StagingKey) },
		indexes: []index[Inventory]{
			one(byVolume, func(i *Inventory) Key { return volumeKey(i.Entry.Volume) }),
			one(byExternal, func(i *Inventory) Key { return stagingKey(i.Entry.StagingKey) }),
		},
		stamp:    stamping(func(o *Inventory) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
		modified: func(i *Inventory) uint64 { return i.ModifyIndex },
		news:     func(tx *Tx, i *Inventory) { tx.tell(News{Staging: i.Entry.StagingKey}) },
	}
	inventoryHeads = &table[InventoryHead]{
		name:     "inventory_heads",
		key:      func(h *InventoryHead) Key { return KeyOf(h.Node) },
		indexes:  []index[InventoryHead]{those(byUnknown, func(h *InventoryHead) bool { return len(h.Unknown) > 0 })},
		stamp:    stamping(func(o *InventoryHead) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
		modified: func(h *InventoryHead) uint64 { return h.ModifyIndex },
		news:     func(*Tx, *InventoryHead) {}, // PutInventoryHead knows
	}
)

func inventoryKey(node ids.Node, k volume.StagingKey) Key {
	return KeyOf(string(node), string(k.Plugin), k.ExternalID)
}

// InventoryHead returns what is known of a node's inventory as a whole, or nil before its first report.
func (s *Snap) InventoryHead(w *Watch, node ids.Node) *InventoryHead {
	return inventoryHeads.get(s, w, KeyOf(node))
}

const byUnknown = "unknown" // the heads with mounts of which nobody can say which volume they are: few

// StrayHeads yields those with unknown mounts, without passing by the others.
func (s *Snap) StrayHeads(w *Watch) iter.Seq[*InventoryHead] {
	return inventoryHeads.find(s, w, byUnknown, KeyOf(byUnknown))
}

// InventoryHeads yields what is known of the inventories of all nodes as wholes, by node.
func (s *Snap) InventoryHeads(w *Watch) iter.Seq[*InventoryHead] {
	return inventoryHeads.scan(s, w, "")
}

// InventoryEntry returns one entry of a node's inventory, or nil.
func (s *Snap) InventoryEntry(w *Watch, node ids.Node, k volume.StagingKey) *Inventory {
	return inventories.get(s, w, inventoryKey(node, k))
}

// InventoryOf yields a node's inventory, by plugin and external id.
func (s *Snap) InventoryOf(w *Watch, node ids.Node) iter.Seq[*Inventory] {
	return inventories.scan(s, w, KeyOf(node))
}

// InventoryNamed yields what nodes know of volumes that they received under a name, by node. Which volume that was,
// only the entry's own key tells.
func (s *Snap) InventoryNamed(w *Watch, id volume.ID) iter.Seq[*Inventory] {
	return inventories.find(s, w, byVolume, volumeKey(id))
}

// InventoriesOf yields what all nodes know of a provider's volume, by node, under whichever name they received it.
func (s *Snap) InventoriesOf(w *Watch, k volume.StagingKey) iter.Seq[*Inventory] {
	return inventories.find(s, w, byExternal, stagingKey(k))
}

// PutInventoryEntry stores one entry of a node's inventory.
func (tx *Tx) PutInventoryEntry(node ids.Node, e volume.InventoryEntry) {
	inventories.put(tx, &Inventory{Node: node, Entry: e})
}

// DeleteInventoryEntry forgets one entry of a node's inventory.
func (tx *Tx) DeleteInventoryEntry(node ids.Node, k volume.StagingKey) bool {
	return inventories.drop(tx, inventoryKey(node, k))
}

// PutInventoryHead stores what is known of a node's inventory as a whole.
func (tx *Tx) PutInventoryHead(h *InventoryHead) {
	var before []volume.UnknownMount
	if old := tx.InventoryHead(nil, h.Node); old != nil {
		before = old.Unknown
	}
	inventoryHeads.put(tx, h)
	if slices.Equal(before, h.Unknown) {
		return
	}
	for a := range tx.AttachmentsByNode(nil, h.Node) { // what a node cannot name stands in the way of all of these
		tx.tell(News{Staging: a.Staging()})
	}
	for v := range volumes.scan(&tx.Snap, nil, "") { // and of whatever is staged there by its path
		if slices.ContainsFunc(append(slices.Clone(before), h.Unknown...), func(u volume.UnknownMount) bool {
			return u.Stages(v.Staging())
		}) {
			tx.tell(News{Staging: v.Staging()})
		}
	}
}

// DeleteInventory forgets all that a node reported, and what was to be told to it.
func (tx *Tx) DeleteInventory(node ids.Node) {
	for _, i := range slices.Collect(inventories.scan(&tx.Snap, nil, KeyOf(node))) {
		inventories.drop(tx, inventories.key(i))
	}
	inventoryHeads.drop(tx, KeyOf(node))
	for _, p := range slices.Collect(claimProofs.scan(&tx.Snap, nil, KeyOf(node))) {
		claimProofs.drop(tx, claimProofs.key(p))
	}
}
