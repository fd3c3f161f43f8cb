package views

import (
	"berth/internal/base/ids"
	"berth/internal/base/sizes"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// States of a node in a recovery, for people.
const (
	nodeReported = "reported"
	nodeDead     = "dead"
	nodeAwaited  = "awaited"
)

// Recovery puts together what the servers wait for before they trust their state, and what a person can do.
func Recovery(s *state.Snap, w *state.Watch) *wire.RecoveryView {
	out := &wire.RecoveryView{Record: s.Recovery(w), Evidence: suspension.Against(s, w)}
	if out.Record != nil {
		for i := range out.Record.Nodes {
			out.Nodes = append(out.Nodes, recovering(s, w, &out.Record.Nodes[i]))
		}
	}
	for v := range s.Volumes(w, wire.AllNamespaces, "") {
		if v.Status.Suspended {
			out.Suspended = append(out.Suspended, suspendedVolume(v))
		}
	}
	for sn := range s.VolumeSnapshots(w) {
		if sn.Suspended {
			out.Suspended = append(out.Suspended, suspendedSnapshot(s, w, sn))
		}
	}
	for a := range s.Allocs(w, "") {
		j := s.Job(w, a.Namespace, a.Job)
		if a.OutcomeUnknown() && a.NextAlloc == "" && !a.ForceReschedule && !j.Stopped() &&
			job.RunsToEnd(j.Type) {
			out.Held = append(out.Held, wire.HeldAlloc{
				Alloc:     a.ID,
				Namespace: a.Namespace,
				Job:       a.Job,
				Resume:    "berth job eval -force-reschedule " + ids.Typed(a.Namespace, a.Job),
			})
		}
	}
	out.Exits = exits(out)
	return out
}

// recovering describes one node of the list.
func recovering(s *state.Snap, w *state.Watch, n *recovery.Node) wire.RecoveryNode {
	out := wire.RecoveryNode{ID: n.ID, Name: n.Name, State: nodeAwaited}
	short := ids.Short(n.ID)
	now := s.Node(w, n.ID)
	switch {
	case n.Reported > 0:
		out.State = nodeReported
	case n.Dead != nil:
		out.State, out.Detail = nodeDead, n.Dead.Reason
	case now == nil || now.Status == node.StatusDown || s.Session(w, n.ID) == nil: // of this incarnation: it never came
		out.Detail = "it does not answer"
		out.Exit = `start its agent; or, if it is dead: berth operator recovery dismiss -reason "..." ` + short
	case s.Session(w, n.ID).Doubted() != "":
		out.Detail = "its word does not count: " + s.Session(nil, n.ID).Doubted()
		out.Exit = `when nothing else of it runs: berth node reboot-confirm -reason "..." ` + short
	case now.Unfollowed != "":
		out.Detail = now.Unfollowed
		out.Exit = `if it is to go on with this state: berth operator recovery begin -reason "..."; else end what it ` +
			"keeps: berth node orphans list " + short
	default:
		out.Detail = "it answers and has not told all that it holds yet"
		out.Exit = "it does so by itself; see: berth node status " + short
	}
	return out
}

func suspendedVolume(v *volume.Volume) wire.SuspendedIntent {
	out := wire.SuspendedIntent{Kind: "volume", ID: v.ID.String(), Phase: string(v.Status.Phase)}
	switch v.Status.Phase {
	case volume.PhaseDeleting:
		out.Resume = "berth volume delete " + v.ID.Typed()
	case volume.PhaseExpanding:
		size := sizes.Exact(max(v.Spec.CapacityMin, v.Status.Capacity))
		out.Resume = "berth volume expand -size " + size + " " + v.ID.Typed()
	default:
		out.Resume = "berth volume create " + ids.Typed(v.Namespace, "FILE") + ", or berth volume delete " +
			v.ID.Typed()
	}
	return out
}

// suspendedSnapshot names how a snapshot is deleted, and, where it was being made, how the same is asked for again: one
// without a name of its own is another one each time.
func suspendedSnapshot(s *state.Snap, w *state.Watch, sn *volume.Snapshot) wire.SuspendedIntent {
	resume := "berth volume snapshot delete " + string(sn.Plugin) + " " + sn.ID
	source := s.VolumeOf(w, volume.StagingKey{Plugin: sn.Plugin, ExternalID: sn.SourceExternalID})
	if source != nil && sn.Phase == volume.PhaseCreating {
		if name := sn.GivenName(source.UID); name != "" {
			resume = "berth volume snapshot create " + source.ID.Typed() + " " + name + ", or " + resume
		}
	}
	return wire.SuspendedIntent{Kind: "snapshot", ID: sn.ID, Phase: string(sn.Phase), Resume: resume}
}

// exits lists what a person can do now, the next step first.
func exits(v *wire.RecoveryView) []string {
	var out []string
	if len(v.Evidence) > 0 {
		out = append(out,
			`if the servers' state was put back to an older one: berth operator recovery begin -reason "..."`)
		for _, e := range v.Evidence {
			out = append(out, "if node "+ids.Short(e.Node)+` is wrong: berth operator recovery dismiss -reason "..." `+
				ids.Short(e.Node))
		}
	}
	rec := v.Record
	if rec == nil || !rec.Ended.IsZero() {
		return out
	}
	if !rec.Whole && rec.Finished == nil {
		out = append(out, "when no node is missing in the list: berth operator recovery finish")
	}
	for _, n := range v.Nodes {
		if n.Exit != "" {
			out = append(out, "node "+ids.Short(n.ID)+": "+n.Exit)
		}
	}
	return out
}
