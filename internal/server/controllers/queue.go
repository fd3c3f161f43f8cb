package controllers

import (
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// debt is a call of a volume that a node was given and of which it has not said how it ended.
type debt struct {
	node   ids.Node
	stream *nodeStream
	call   callKey
}

// Queue says why a call of a volume may not be made yet although the volume's lane is free; empty when it may. The call
// before it was given up without its end: its executor may be at it still, until that says how it ended or begins a new
// stream, or is down and has been gone for longer than the call can take. The caller holds the lane. A call of the same
// subject may go to the same executor, which makes one of a volume at a time.
func (d *Dispatcher) Queue(s *state.Snap, id volume.StagingKey, subject string, executor ids.Node) string {
	if id.ExternalID == "" {
		return "" // nothing but its creation is about it
	}
	d.mu.Lock()
	owed, ok := d.debts[laneKey{id.Plugin, id.ExternalID}]
	ok = ok && d.nodes[owed.node] == owed.stream
	d.mu.Unlock()
	if ok && (owed.call.subject != subject || owed.node != executor) {
		return "node " + ids.Short(owed.node) + " has not said how " + owed.call.kind + " of " + owed.call.subject +
			" ended, and its plugin may be at it still"
	}
	for other, begun := range underWay(s, id) {
		if other == subject {
			continue // who repeats it is decided by SameExecutor
		}
		if why := d.Busy(s, begun, attaching.Timeout); why != "" {
			return why
		}
	}
	return ""
}

// underWay returns the executors of a volume's calls whose end the state does not know, by subject.
func underWay(s *state.Snap, id volume.StagingKey) map[string]ids.Node {
	out := map[string]ids.Node{}
	for a := range s.AttachmentsOf(nil, id) {
		out[SubjectOf(a)] = a.Executor
	}
	for sn := range s.VolumeSnapshotsOf(nil, id) {
		out[SnapshotSubject(sn)] = sn.Executor
	}
	if v := s.VolumeOf(nil, id); v != nil {
		out[v.ID.String()] = v.Status.Executor
	}
	return out
}

// SubjectOf names the calls about an attachment.
func SubjectOf(a *volume.Attachment) string { return a.Volume.String() + "@" + string(a.Node) }

// SnapshotSubject names the calls about a snapshot.
func SnapshotSubject(sn *volume.Snapshot) string { return "snapshot " + sn.ID }

// owes notes a call that is handed over. Growing on a node is no call of the plugin's controller.
func (d *Dispatcher) owes(node ids.Node, s *nodeStream, call *wire.ControllerCall) {
	if call.ExternalID() == "" || call.Kind == wire.CallNodeExpand {
		return
	}
	key := callKey{call.Kind, call.Subject, call.Generation}
	d.mu.Lock()
	defer d.mu.Unlock()
	lane := laneKey{call.Plugin, call.ExternalID()}
	s.owed[key] = lane
	d.debts[lane] = debt{node, s, key}
}

// settled drops what a node owed and has reported. The caller holds the lock.
func (d *Dispatcher) settled(s *nodeStream, key callKey) {
	lane, ok := s.owed[key]
	delete(s.owed, key)
	if ok && d.debts[lane].stream == s && d.debts[lane].call == key {
		delete(d.debts, lane)
	}
}
