package cluster

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

func newRecovery(e *kit.Env) *kit.Command {
	cmd := &kit.Command{
		Use:   "recovery",
		Short: "Find back to a state of the servers that can be trusted",
		Long: `After the servers' state was restored, or put back to an older copy, it is older than the world: nodes
may hold volumes that it believes free. Until every node that may has reported, or a person vouches for it, nothing is
done with a volume that cannot be taken back. See docs/recovery.md.`,
	}
	return cmd.Add(newRecoveryStatus(e), newRecoveryBegin(e), newRecoveryFinish(e), newRecoveryDismiss(e))
}

func newRecoveryStatus(e *kit.Env) *kit.Command {
	var verbose bool
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "status [flags]",
		Short:   "Show what is awaited from whom, what is suspended, and the ways out",
		Example: "  berth operator recovery status\n  berth operator recovery status -json",
		Run: func(ctx context.Context, _ []string) error {
			r, _, err := e.Client().Operator().Recovery(ctx, nil)
			return formats.Show(e.Out, r, kit.Doing(err, "read", "the recovery", ""), func() {
				showRecovery(e, r, verbose)
			})
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids")
	return formats.AddTo(cmd)
}

func showRecovery(e *kit.Env, r *api.RecoveryStatus, verbose bool) {
	if r.State == "none" {
		e.Out.Printf("No recovery: nothing shows that the servers' state is older than the world\n")
		return
	}
	e.Out.Pairs(kit.Pairs{{"State", r.State}})
	if len(r.Evidence) > 0 {
		e.Out.Section("Evidence")
		kit.List(e.Out, r.Evidence, "evidence", []string{"Node ID", "Name", "Relation", "Seen Index", "Since"},
			func(v *api.RecoveryEvidence) []string {
				seen := strconv.FormatUint(v.SeenIndex, 10)
				return []string{kit.ID(v.NodeID, verbose), v.Name, v.Relation, seen, kit.At(v.Time)}
			})
	}
	if r.Cause != "" {
		showBegun(e, r)
	}
	if len(r.Nodes) > 0 {
		e.Out.Section("Nodes")
		kit.List(e.Out, r.Nodes, "nodes", []string{"Node ID", "Name", "State", "Detail"},
			func(n *api.RecoveryNode) []string {
				return []string{kit.ID(n.ID, verbose), n.Name, n.State, n.Detail}
			})
	}
	if len(r.Suspended) > 0 {
		e.Out.Section("Suspended until asked for again")
		kit.List(e.Out, r.Suspended, "suspended", []string{"Kind", "ID", "Phase", "Ask Again With"},
			func(s *api.RecoverySuspended) []string { return []string{s.Kind, s.ID, s.Phase, s.Resume} })
	}
	if len(r.Held) > 0 {
		e.Out.Section("Held: they may have ended already")
		kit.List(e.Out, r.Held, "held", []string{"Alloc ID", "Job ID", "Run Again With"},
			func(h *api.RecoveryHeld) []string { return []string{kit.ID(h.AllocID, verbose), h.JobID, h.Resume} })
	}
	if len(r.Exits) > 0 {
		e.Out.Section("What to do")
		for _, line := range r.Exits {
			e.Out.Printf("%s\n", kit.Clean(line))
		}
	}
}

// showBegun shows the recovery that was begun last. It may have ended long before what is shown against the state now.
func showBegun(e *kit.Env, r *api.RecoveryStatus) {
	title := "Recovery"
	if r.Ended != nil {
		title = "The last recovery, which has ended"
	}
	complete := "no: a person has to say so"
	if r.ListComplete {
		complete = "yes"
	}
	e.Out.Section(title)
	e.Out.Pairs(kit.Pairs{
		{"Cause", r.Cause},
		{"Begun", kit.AtPointer(r.Begun)},
		{"Begun By", r.By},
		{"Ended", kit.AtPointer(r.Ended)},
		{"Incarnation", r.Incarnation},
		{"Goes On From", r.Parent},
		{"No Node Missing", complete},
	})
}

func newRecoveryBegin(e *kit.Env) *kit.Command {
	var reason string
	var yes kit.Agreement
	cmd := &kit.Command{
		Use:   "begin [flags]",
		Short: "Say that the servers' state was put back to an older one",
		Long: `Begins a new incarnation of the servers' state, because an older copy of it was put back without "berth
operator snapshot restore". Nodes that followed the state before go on with it: those that show it are named first. If
one of them is another cluster's, dismiss it before. Nothing is done with a volume before every node that may hold it
has reported, and you have said that none is missing: berth operator recovery finish.`,
		Example: `  berth operator recovery begin -reason "server/ was restored from the backup of Sunday"`,
		Run: func(ctx context.Context, _ []string) error {
			r, _, err := e.Client().Operator().Recovery(ctx, nil)
			if err != nil {
				return kit.Doing(err, "read", "the recovery", "")
			}
			for _, v := range r.Evidence {
				e.Err.Printf("%s %s: it has seen a later state, and goes on with this one\n",
					kit.ID(v.NodeID, false), v.Name)
			}
			if err := e.Confirm(yes, "Begin a new incarnation of the servers' state?",
				"say that you mean it with -yes"); err != nil {
				return err
			}
			err = e.Client().Operator().BeginRecovery(ctx, reason)
			if err == nil {
				e.Out.Printf("The recovery has begun; follow it with: berth operator recovery status\n")
			}
			return kit.Doing(err, "begin", "a recovery", "")
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "the `reason`, for those who read it later")
	yes.AddTo(cmd)
	return cmd
}

func newRecoveryFinish(e *kit.Env) *kit.Command {
	var reason string
	var yes kit.Agreement
	cmd := &kit.Command{
		Use:   "finish [flags]",
		Short: "Say that no node is missing in the recovery's list",
		Long: `Shows who has reported, and takes your word that no other node can hold a volume of this cluster. It is
needed where the state that was replaced could not be read. Nodes of the list that have not reported are awaited all the
same.`,
		Example: "  berth operator recovery finish",
		Run: func(ctx context.Context, _ []string) error {
			r, _, err := e.Client().Operator().Recovery(ctx, nil)
			if err != nil {
				return kit.Doing(err, "read", "the recovery", "")
			}
			if r.Cause == "" || r.Ended != nil {
				return kit.Fail(fault.NotFound, "see berth operator recovery status",
					"finish the recovery: none is under way")
			}
			for _, n := range r.Nodes {
				e.Err.Printf("%s %s: %s\n", kit.ID(n.ID, false), n.Name, n.State)
			}
			if err := e.Confirm(yes, "Are these all nodes that may hold a volume of this cluster?",
				"say that you mean it with -yes"); err != nil {
				return err
			}
			if err := e.Client().Operator().FinishRecovery(ctx, reason); err != nil {
				return kit.Doing(err, "finish", "the recovery", "")
			}
			if r, _, err = e.Client().Operator().Recovery(ctx, nil); err != nil {
				return kit.Doing(err, "read", "the recovery", "")
			}
			if r.State == "ended" {
				e.Out.Printf("The recovery has ended\n")
				return nil
			}
			e.Out.Printf("Noted; nodes are awaited still: berth operator recovery status\n")
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "the `reason`, for those who read it later")
	yes.AddTo(cmd)
	return cmd
}

func newRecoveryDismiss(e *kit.Env) *kit.Command {
	var reason string
	var yes kit.Agreement
	cmd := &kit.Command{
		Use:   "dismiss [flags] <node>",
		Short: "Say that a node is dead, or that what it has seen is wrong",
		Long: `Takes your word about one node: a recovery waits for it no longer, because it is dead and cannot write to
any volume; or it is no evidence against the servers' state, because what it has seen is wrong. A node that answers is
not declared dead. Who said so and why is kept.`,
		Example: `  berth operator recovery dismiss -reason "its disk was swapped with another cluster's" 8f3a11c0`,
		Run: func(ctx context.Context, args []string) error {
			if reason == "" {
				return kit.Usage("say why with -reason")
			}
			id, err := nodeOfRecovery(ctx, e, args[0])
			if err != nil {
				return err
			}
			question := "Dismiss node " + kit.ID(id, false) + "?"
			if err := e.Confirm(yes, question, "say that you mean it with -yes"); err != nil {
				return err
			}
			err = e.Client().Operator().DismissNode(ctx, id, reason)
			if err == nil {
				e.Out.Printf("Node %q is dismissed\n", id)
			}
			return kit.Doing(err, "dismiss", "node", id)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "the `reason`, for those who read it later")
	yes.AddTo(cmd)
	return cmd
}

// nodeOfRecovery finds the one node that an argument means among those that a recovery or evidence names: the servers
// may know no other record of it.
func nodeOfRecovery(ctx context.Context, e *kit.Env, arg string) (string, error) {
	r, _, err := e.Client().Operator().Recovery(ctx, nil)
	if err != nil {
		return "", kit.Doing(err, "read", "the recovery", "")
	}
	found := map[string]bool{}
	add := func(id, name string) {
		if arg != "" && strings.HasPrefix(id, arg) || name == arg {
			found[id] = true
		}
	}
	for _, n := range r.Nodes {
		add(n.ID, n.Name)
	}
	for _, v := range r.Evidence {
		add(v.NodeID, v.Name)
	}
	all := slices.Sorted(maps.Keys(found))
	switch len(all) {
	case 1:
		return all[0], nil
	case 0:
		return "", kit.Fail(fault.NotFound, `"berth operator recovery status" names them`,
			"no recovery waits for a node %q, and it shows nothing against the servers' state", arg)
	}
	return "", kit.Fail(fault.Invalid, "write more of the id", "%q could mean each of %d nodes", arg, len(all))
}
