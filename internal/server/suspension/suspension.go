// Package suspension owns the question what the servers may not do yet because their state may be older than the world:
// it was restored and has not heard every node, or a node shows that it was put back to an older one. Pure reading of a
// snapshot. The commands of package fsm, the keepers, the planner and the endpoints ask it; only packages of the server
// import it.
package suspension

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// Reason says why something may not be done yet, and the way out.
type Reason struct{ Text, Hint string }

// Refuse makes the refusal of an operation; a nil reason refuses nothing.
func (r *Reason) Refuse(op, subject string) error {
	if r == nil {
		return nil
	}
	return fault.WithHint(fault.New(fault.NotReady, op, subject, r.Text), r.Hint)
}

// String is the reason with its way out, for those who wait; empty for a nil reason.
func (r *Reason) String() string {
	if r == nil {
		return ""
	}
	return r.Text + " (" + r.Hint + ")"
}

// seeStatus is the way out that names all others.
const seeStatus = "see what to do: berth operator recovery status"

// Reader answers about many volumes of one snapshot: what is the same for all of them is read once. The watch sees
// whatever may change an answer that was given.
type Reader struct {
	snap     *state.Snap
	watch    *state.Watch
	recovery *recovery.Record
	against  []*recovery.Evidence
	stray    []*state.InventoryHead // of nodes with mounts under no name
	looked   bool                   // for them
}

// Of returns a reader of a snapshot.
func Of(s *state.Snap, w *state.Watch) *Reader {
	return &Reader{snap: s, watch: w, recovery: s.Recovery(w), against: Against(s, w)}
}

// Calls says why no controller call is made for a provider's volume, and nothing is begun with it: the state was
// restored, and some node that may hold it has not been heard; or a node holds it by a history that this state does not
// contain.
func (r *Reader) Calls(k volume.StagingKey) *Reason {
	s, w := r.snap, r.watch
	if !r.recovery.Over(k) {
		return &Reason{Text: "the servers' state was restored: " + Missing(r.recovery, k), Hint: seeStatus}
	}
	for _, e := range r.against {
		if i := s.InventoryEntry(w, e.Node, k); i != nil && unclaimed(s, w, i) != "" {
			return &Reason{Text: Shows(e) + ", and holds this volume by that", Hint: decide(e)}
		}
		// What it does not report, another boot or another agent of it may hold by that history.
		if why := s.Session(w, e.Node).Doubted(); why != "" {
			return &Reason{Text: Shows(e) + ", and " + why, Hint: decide(e)}
		}
	}
	return nil
}

// unnamed says where a volume is mounted although neither a claim nor the node's records name it: where the path of the
// mount is made of the hash of its id. A node that is down is judged by what is claimed on it.
func (r *Reader) unnamed(k volume.StagingKey) *Reason {
	s, w := r.snap, r.watch
	for _, h := range r.strays() {
		for _, u := range h.Unknown {
			if n := s.Node(w, h.Node); u.Stages(k) && n != nil && n.Status != node.StatusDown {
				return &Reason{Text: "node " + named(h.Node, n.Name) + " has it mounted and has no record of it",
					Hint: u.Describe(h.Node) + "; " + Disbelieve(s, w, h.Node)}
			}
		}
	}
	return nil
}

// strays are the nodes with mounts under no name: few, of however many nodes there are.
func (r *Reader) strays() []*state.InventoryHead {
	if !r.looked {
		r.stray = slices.Collect(r.snap.StrayHeads(r.watch))
		r.looked = true
	}
	return r.stray
}

// Destruction says why nothing of a provider's volume is deleted, forgotten by force, detached or given away by proof:
// what Calls says, or any node shows that the state is older than the world, or has it mounted without a record.
func (r *Reader) Destruction(k volume.StagingKey) *Reason {
	if why := r.Calls(k); why != nil {
		return why
	}
	for _, e := range r.against {
		return &Reason{Text: Shows(e), Hint: decide(e)}
	}
	return r.unnamed(k)
}

// Calls is what a Reader says of one volume.
func Calls(s *state.Snap, w *state.Watch, k volume.StagingKey) *Reason { return Of(s, w).Calls(k) }

// Destruction is what a Reader says of one volume.
func Destruction(s *state.Snap, w *state.Watch, k volume.StagingKey) *Reason {
	return Of(s, w).Destruction(k)
}

// Claims is what a Reader says of one volume.
func Claims(s *state.Snap, w *state.Watch, v *volume.Volume) *Reason { return Of(s, w).Claims(v) }

// Call says why no call is made for a volume now: of those that destroy something, detach included, or of the others.
func Call(s *state.Snap, k volume.StagingKey, destroys bool) *Reason {
	if destroys {
		return Destruction(s, nil, k)
	}
	return Calls(s, nil, k)
}

// Claims says why no claim of a volume begins or leaves the queue: what Calls says, or a node has it mounted for an
// alloc that has no claim of it, so that it may be written to by somebody whom the claims do not show; or a node
// without any claim of it still has it staged, as an orphan leaves it that has just ended: what was written may not be
// on the device yet.
func (r *Reader) Claims(v *volume.Volume) *Reason {
	s, w := r.snap, r.watch
	k := v.Staging()
	if why := r.Calls(k); why != nil {
		return why
	}
	if shared(v) {
		return nil
	}
	for i := range s.InventoriesOf(w, k) {
		if a := unclaimed(s, w, i); a != "" {
			return &Reason{
				Text: fmt.Sprintf("node %s has it mounted for allocation %s, which has no claim of it",
					ids.Short(i.Node), ids.Short(a)),
				Hint: r.about(i.Node, a),
			}
		}
		if s.Understands(lingering) && i.Entry.Staging.Exists() && !ClaimedOn(s, w, k, i.Node) {
			return &Reason{
				Text: "node " + ids.Short(i.Node) + " has not released it yet: " + i.Entry.Unreleased(),
				Hint: "the node releases it by itself; follow it with: berth volume status " + v.ID.Typed() + "; " +
					Disbelieve(s, w, i.Node),
			}
		}
	}
	return r.unnamed(k)
}

// about is what a person does about an alloc for which a node has a volume mounted without a claim.
func (r *Reader) about(on ids.Node, id ids.Alloc) string {
	hint := "see it with: berth node orphans list; keep it with: " + Adopt(r.snap, r.watch, on, id) +
		"; end it with: " + End(id)
	if !orphaned(r.snap, r.watch, on, id) { // it says nothing more of it: perhaps there is none
		hint += "; " + Disbelieve(r.snap, r.watch, on)
	}
	return hint
}

// lingering is the schema from which on a staging without a claim counts: older logs are applied as they were.
const lingering = 5

// ClaimedOn reports whether anybody on a node has a claim of a volume, in whatever state.
func ClaimedOn(s *state.Snap, w *state.Watch, k volume.StagingKey, n ids.Node) bool {
	for c := range s.ClaimsOf(w, k) {
		if c.Node == n {
			return true
		}
	}
	return false
}

// shared reports a volume that was made for uses that never exclude each other alone.
func shared(v *volume.Volume) bool {
	for _, c := range v.Spec.Capabilities {
		if c.AccessMode != volume.MultiNodeReader && c.AccessMode != volume.MultiNodeMultiWriter {
			return false
		}
	}
	return true
}

// unclaimed returns an alloc for which a node has a volume mounted without a claim of it; empty: there is none.
func unclaimed(s *state.Snap, w *state.Watch, i *state.Inventory) ids.Alloc {
	for _, p := range i.Entry.Publications {
		if p.Presence.Exists() && !claimed(s, w, i.Entry.StagingKey, p.Alloc) {
			return p.Alloc
		}
	}
	return ""
}

func claimed(s *state.Snap, w *state.Watch, k volume.StagingKey, id ids.Alloc) bool {
	for c := range s.ClaimsByAlloc(w, id) {
		if c.Staging() == k {
			return true
		}
	}
	return false
}

// Against lists the evidence that stands against this state, by node.
func Against(s *state.Snap, w *state.Watch) []*recovery.Evidence {
	m := s.Meta(nil)
	if m == nil {
		return nil
	}
	var out []*recovery.Evidence
	for e := range s.AllEvidence(w) {
		if e.Counts(m.Incarnation) {
			out = append(out, e)
		}
	}
	return out
}

// Shows is what a node's evidence says, in words.
func Shows(e *recovery.Evidence) string {
	return fmt.Sprintf("node %s has seen a history of the servers that their state does not contain: the state was "+
		"put back to an older one, or the node is wrong", named(e.Node, e.Name))
}

func decide(e *recovery.Evidence) string {
	return "a person decides: berth operator recovery begin, or berth operator recovery dismiss -reason \"...\" " +
		ids.Short(e.Node)
}

// shown bounds the nodes that a sentence names.
const shown = 3

// Missing says what a recovery waits for before it ends for a volume; with the zero key, before it ends at all.
func Missing(r *recovery.Record, k volume.StagingKey) string {
	var names []string
	awaited := r.Awaited(k)
	for i := range awaited {
		if i == shown {
			names = append(names, fmt.Sprintf("%d more", len(awaited)-shown))
			break
		}
		names = append(names, named(awaited[i].ID, awaited[i].Name))
	}
	switch {
	case len(names) == 1 && len(awaited) == 1:
		return "node " + names[0] + " has yet to report what it holds"
	case len(names) > 0:
		return "nodes " + strings.Join(names, ", ") + " have yet to report what they hold"
	}
	return "nobody has said yet that no node is missing in the list of those that reported"
}

func named(id ids.Node, name string) string {
	if name == "" {
		return ids.Short(id)
	}
	return name + " (" + ids.Short(id) + ")"
}

// Any reports whether there is a volume at all for which Calls may have an answer.
func Any(s *state.Snap, w *state.Watch) bool {
	Watch(s, w)
	return !s.Recovery(nil).Over(volume.StagingKey{}) || len(Against(s, nil)) > 0
}

// Watch lets whoever keeps many volumes be woken by what may change the answers about all of them.
func Watch(s *state.Snap, w *state.Watch) {
	s.Recovery(w)
	for range s.AllEvidence(w) {
		break
	}
}
