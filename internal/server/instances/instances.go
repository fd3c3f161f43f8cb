// Package instances owns the question whose word about a storage plugin counts. A node reports the instances of
// plugins that run on it; one counts while it runs in an allocation that the servers have placed on that very node, of
// a job whose task is that plugin in that role, and whose end the node has not reported. Whatever else a node says is
// left out: an instance is asked to make and to delete volumes, is handed their secrets, and says what the plugin is.
// Orphans are the exception after a loss or a restore of the state, while nothing placed is the plugin.
//
// It is read from the state whenever it is asked, for allocs are placed and end after a node has registered. Whoever
// reads node.Node.CSI otherwise shows what the node says, and decides nothing by it. Only packages of the server
// import it.
package instances

import (
	"fmt"
	"iter"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/state"
)

// Bundled is the id of the plugin that an agent runs where its configuration asks for it. Its jobs are in the reserved
// namespace, where agents of servers register them.
const Bundled ids.Plugin = "local-csi"

// Ended is why an instance does not count whose allocation has ended. That is no more than the order of two reports, as
// long as the node goes on to say that the instance is gone too.
const Ended = "its allocation has ended"

// On are the instances of a node that count, as it orders them; none of no node. The answer is frozen.
func On(s *state.Snap, w *state.Watch, n *node.Node) []*plugin.Instance {
	if n == nil {
		return nil
	}
	unplaced := func(i *plugin.Instance) bool { return Why(s, w, n.ID, i) != "" }
	if !slices.ContainsFunc(n.CSI, unplaced) {
		return n.CSI
	}
	return slices.DeleteFunc(slices.Clone(n.CSI), unplaced)
}

// Of yields the instances of a plugin that count, by node.
func Of(s *state.Snap, w *state.Watch, id ids.Plugin) iter.Seq2[*node.Node, *plugin.Instance] {
	return func(yield func(*node.Node, *plugin.Instance) bool) {
		for n := range s.Nodes(w, "") {
			for _, i := range n.CSI {
				if i.Plugin == id && Why(s, w, n.ID, i) == "" && !yield(n, i) {
					return
				}
			}
		}
	}
}

// Why says why an instance that a node reports does not count; empty: it does. That an alloc is lost is the servers'
// word for its node: it says nothing of what runs there.
func Why(s *state.Snap, w *state.Watch, on ids.Node, i *plugin.Instance) string {
	if s.Alloc(w, i.Alloc) == nil && alone(s, w, on, i) {
		return ""
	}
	return whyUnplaced(s, w, on, i)
}

// alone reports an instance in an orphan, of a node that follows other servers, as after all that these knew was lost,
// or under a state that was restored, while nothing that they placed is the plugin in that role: its volumes are known
// by it, or by nothing.
func alone(s *state.Snap, w *state.Watch, on ids.Node, i *plugin.Instance) bool {
	m := s.Meta(w)
	restored := m != nil && len(m.Parents) > 0
	if n := s.Node(w, on); n == nil || n.Unfollowed == "" && !restored {
		return false
	}
	for n := range s.Nodes(w, "") {
		for _, other := range n.CSI {
			if other.Plugin == i.Plugin && other.Role == i.Role && whyUnplaced(s, w, n.ID, other) == "" {
				return false
			}
		}
	}
	return true
}

func whyUnplaced(s *state.Snap, w *state.Watch, on ids.Node, i *plugin.Instance) string {
	a := s.Alloc(w, i.Alloc)
	switch {
	case a == nil:
		return "the servers do not know its allocation"
	case a.Node != on:
		return "its allocation is placed on node " + ids.Short(a.Node)
	case a.ProcessesGone():
		return Ended
	case i.Plugin == Bundled && a.Namespace != ids.ReservedNamespace:
		return "that is the bundled plugin, and its allocation is not Berth's own"
	case !runs(s.JobOf(nil, a), a.TaskGroup, i):
		return fmt.Sprintf("job %q does not run it in that role", a.Job)
	}
	return ""
}

// OnOrUnknown are those of allocs that the servers do not know, before those that count: what they had placed may be
// more than a state tells that was restored. They are asked about what the node itself has, where that makes the
// servers more careful.
func OnOrUnknown(s *state.Snap, n *node.Node) []*plugin.Instance {
	if n == nil {
		return nil
	}
	unknown := slices.DeleteFunc(slices.Clone(n.CSI), func(i *plugin.Instance) bool {
		return s.Alloc(nil, i.Alloc) != nil
	})
	return append(unknown, On(s, nil, n)...)
}

// Placed is the order in which the servers placed what two instances run in. It is theirs: the clock of a node decides
// nothing.
func Placed(s *state.Snap, i *plugin.Instance) uint64 {
	a := s.Alloc(nil, i.Alloc)
	if a == nil {
		return 0
	}
	return max(a.CreateIndex, a.Adopted)
}

// runs reports whether a group of a job has a task that is the plugin in the role.
func runs(j *job.Job, group string, i *plugin.Instance) bool {
	if j == nil {
		return false
	}
	g := j.Group(group)
	return g != nil && slices.ContainsFunc(g.Tasks, func(t *job.Task) bool {
		c := t.CSIPluginConfig
		return c != nil && ids.Plugin(c.ID) == i.Plugin &&
			(i.Role == plugin.RoleNode && c.NodeRole() || i.Role == plugin.RoleController && c.ControllerRole())
	})
}
