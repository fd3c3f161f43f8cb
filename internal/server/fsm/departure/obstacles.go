package departure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Obstacle is something for which a node cannot be forgotten, and how a person ends it.
type Obstacle struct{ What, Way string }

// named lists things of a kind, the first few by their names.
type named struct {
	one, many string
	names     []string
}

// shown is how many names an obstacle says.
const shown = 3

func (n named) String() string {
	what, names := n.many, slices.Compact(slices.Sorted(slices.Values(n.names)))
	if len(names) == 1 {
		what = n.one
	}
	list := strings.Join(names[:min(shown, len(names))], ", ")
	if len(names) > shown {
		list += ", …"
	}
	return fmt.Sprintf("%d %s (%s)", len(names), what, list)
}

// Bound are the things of storage that are bound to a node: what the servers could not undo, or find, without it.
func Bound(s *state.Snap, id ids.Node) []Obstacle {
	claims := named{one: "claim", many: "claims"}
	for c := range s.ClaimsByNode(nil, id) {
		claims.names = append(claims.names, c.Volume.String())
	}
	attached := named{one: "attachment", many: "attachments"}
	for a := range s.AttachmentsByNode(nil, id) {
		attached.names = append(attached.names, called(a.Volume, a.ExternalID))
	}
	mounts := named{one: "mount that it reported", many: "mounts that it reported"}
	for i := range s.InventoryOf(nil, id) {
		if !i.Entry.Quiet() {
			mounts.names = append(mounts.names, called(i.Entry.Volume, i.Entry.ExternalID))
		}
	}
	const released = "start its agent, which releases what it holds"
	const forget = "delete them; or, of a node that was replaced: berth volume deregister -force -reason … VOLUME"
	return say(nil,
		obstacle{claims, released + "; or, if its machine is dead: " + replace(id)},
		obstacle{attached, `"berth volume status" says what each waits for`},
		obstacle{mounts, released + "; or, if its machine is dead: " + replace(id)},
		obstacle{homed(s, id), forget})
}

// called is the name of a volume, or its provider's.
func called(id volume.ID, external string) string {
	if id.ID == "" {
		return external
	}
	return id.String()
}

// homed are the volumes and snapshots that live on a node alone.
func homed(s *state.Snap, id ids.Node) named {
	out := named{one: "volume that lives on it alone", many: "volumes that live on it alone"}
	if !s.Understands(Schema) {
		return out // a server of an older version does not look at them
	}
	for v := range s.Volumes(nil, wire.AllNamespaces, "") {
		if v.Status.HomeNode == id {
			out.names = append(out.names, v.ID.String())
		}
	}
	for v := range s.VolumeSnapshots(nil) {
		if v.HomeNode == id {
			out.names = append(out.names, "snapshot "+cmp.Or(v.Name, v.ExternalID))
		}
	}
	return out
}

type obstacle struct {
	named
	way string
}

// say adds those of which there is something.
func say(out []Obstacle, all ...obstacle) []Obstacle {
	for _, o := range all {
		if len(o.names) > 0 {
			out = append(out, Obstacle{What: o.String(), Way: o.way})
		}
	}
	return out
}

func replace(id ids.Node) string { return "berth node replace -reason … " + ids.Short(id) + " OTHER" }

// Obstacles are all for which a person cannot have a node forgotten. Garbage collection, which comes a day later, waits
// only for what is bound to it.
func Obstacles(s *state.Snap, n *node.Node) []Obstacle {
	out := append(ended(s, n), Bound(s, n.ID)...)
	if n.ReplacedBy == "" {
		out = append(out, alive(s, n)...)
	}
	if why := s.Session(nil, n.ID).Doubted(); why != "" {
		out = append(out, Obstacle{why, "berth node reboot-confirm -reason … " + ids.Short(n.ID)})
	}
	const dismiss = "start its agent; or, if it is dead: berth operator recovery dismiss -reason … NODE"
	if r := s.Recovery(nil); r != nil && r.Ended.IsZero() {
		if known := r.Node(n.ID); known == nil || known.Reported == 0 && known.Dead == nil {
			out = append(out, Obstacle{"the state was restored, and it has not said yet what it holds",
				dismiss})
		}
	}
	if e := s.Evidence(nil, n.ID); e != nil && e.Counts(s.Point(nil).Incarnation) {
		out = append(out, Obstacle{"what it has seen speaks against the servers' state", dismiss})
	}
	return out
}

// ended are the allocs of a node of which nothing says that they have ended. A node that was replaced has ended them.
func ended(s *state.Snap, n *node.Node) []Obstacle {
	running := named{one: "allocation not known to have ended", many: "allocations not known to have ended"}
	for a := range s.AllocsByNode(nil, n.ID) {
		dead := a.ProcessesGone() || a.OutcomeUnknown() || n.ReplacedBy != "" && a.ClientTerminal()
		if !dead {
			running.names = append(running.names, ids.Short(a.ID))
		}
	}
	return say(nil, obstacle{running, "start its agent; or, if its machine is dead: " + replace(n.ID)})
}

// alive is what may run or be mounted on a machine of which nobody said that it is dead.
func alive(s *state.Snap, n *node.Node) []Obstacle {
	orphans := named{one: "orphan", many: "orphans"}
	for _, o := range n.Orphans {
		orphans.names = append(orphans.names, ids.Short(o.Alloc))
	}
	unknown := named{one: "mount that nobody knows", many: "mounts that nobody knows"}
	if h := s.InventoryHead(nil, n.ID); h != nil {
		unknown.names = paths(h.Unknown)
	}
	return say(nil,
		obstacle{orphans, "start its agent, and end or adopt them: berth node orphans list " + ids.Short(n.ID)},
		obstacle{unknown, "start its agent, and look at them: berth node status " + ids.Short(n.ID)})
}

func paths(all []volume.UnknownMount) []string {
	var out []string
	for _, u := range all {
		out = append(out, u.Path)
	}
	return out
}
