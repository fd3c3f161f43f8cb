package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// keptHere is the sentence about a node's orphans.
func keptHere(n int) string {
	if n == 1 {
		return `1 allocation is kept here about which nobody decides (see "berth node orphans list")`
	}
	return fmt.Sprintf(`%d allocations are kept here about which nobody decides (see "berth node orphans list")`, n)
}

// orphans tells what the node keeps though nobody decides about it.
func (s *nodeStatus) orphans(n *api.Node) {
	if len(n.Orphans) == 0 {
		return
	}
	s.env.Out.Section("Orphans")
	s.env.Out.Notice(keptHere(len(n.Orphans)))
	if !s.short {
		kit.List(s.env.Out, n.Orphans, "orphans", orphanHeader, func(o *api.NodeOrphan) []string {
			return orphanRow(o, s.verbose)
		})
	}
}

var orphanHeader = []string{"Alloc ID", "Job ID", "Task Group", "Volumes", "Since", "Reason"}

func orphanRow(o *api.NodeOrphan, verbose bool) []string {
	reason := o.Reason
	if o.Awaits != "" {
		reason += "; it ends, waiting for: " + kit.OneSentence(o.Awaits)
	}
	return []string{kit.ID(o.AllocID, verbose), o.JobID, o.TaskGroup, strings.Join(o.Volumes, ","), kit.At(o.Since),
		reason}
}

func newOrphans(e *kit.Env) *kit.Command {
	cmd := &kit.Command{
		Use:   "orphans",
		Short: "Look at what nodes keep that the servers do not know, adopt it or end it",
		Long: `An orphan is an allocation that runs on a node, or holds mounts there, although the servers' state does
not know it and never removed it: the state was emptied, shortened or restored from an older copy, or the node has lost
its record. It is kept as it is, neither restarted nor ended, until it ends by itself, or a person ends it or gives it
to the servers.`,
	}
	return cmd.Add(newOrphansList(e), newOrphansAdopt(e), newOrphansEnd(e))
}

// listed is an orphan as programs read it.
type listed struct {
	NodeID string
	*api.NodeOrphan
}

// located is an orphan and its node.
type located struct {
	node   *api.Node
	orphan *api.NodeOrphan
}

// allOrphans reads the orphans of one node, or of all.
func allOrphans(ctx context.Context, e *kit.Env, node string) ([]located, error) {
	c := e.Client()
	var nodes []string
	if node != "" {
		ref, err := e.Node(ctx, node, kit.Read)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, ref.ID)
	} else {
		list, _, err := c.Nodes().List(ctx, nil)
		if err != nil {
			return nil, kit.Doing(err, "list", "nodes", "")
		}
		for _, n := range list {
			if n.Orphans > 0 {
				nodes = append(nodes, n.ID)
			}
		}
	}
	var out []located
	for _, id := range nodes {
		n, _, err := c.Nodes().Get(ctx, id, nil)
		if err != nil {
			return nil, kit.Doing(err, "read", "node", id)
		}
		for _, o := range n.Orphans {
			out = append(out, located{node: n, orphan: o})
		}
	}
	return out, nil
}

func newOrphansList(e *kit.Env) *kit.Command {
	var verbose bool
	var formats kit.Formats
	cmd := &kit.Command{
		Use:     "list [flags] [node]",
		Short:   "List what nodes keep that the servers do not know",
		Example: "  berth node orphans list\n  berth node orphans list -verbose 8f3a11c0",
		IDs:     "nodes",
		Run: func(ctx context.Context, args []string) error {
			list, err := allOrphans(ctx, e, strings.Join(args, ""))
			plain := []listed{}
			for _, l := range list {
				plain = append(plain, listed{NodeID: l.node.ID, NodeOrphan: l.orphan})
			}
			return formats.Show(e.Out, plain, err, func() {
				header := append([]string{"Node ID"}, orphanHeader...)
				kit.List(e.Out, list, "orphans", header, func(l located) []string {
					return append([]string{kit.ID(l.node.ID, verbose)}, orphanRow(l.orphan, verbose)...)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "whole ids")
	return formats.AddTo(cmd)
}

// orphansEnd is "node orphans end".
type orphansEnd struct {
	env         *kit.Env
	all, detach bool
	yes         kit.Agreement
	node        string
}

func newOrphansEnd(e *kit.Env) *kit.Command {
	s := &orphansEnd{env: e}
	cmd := &kit.Command{
		Use:   "end [flags] [alloc...]",
		Short: "End orphans: stop their tasks and release their volumes",
		Long: `Ends orphans, because you say that nobody needs them: their tasks are stopped within their kill timeouts,
their volumes are unmounted, and what is left of them on the node is removed. Waits until that is over, and says what it
waits for; Ctrl-C ends the waiting, not the end, and "berth node orphans list" goes on naming what it waits for. A
volume that is not free ten seconds after the end of an allocation whose record was lost is reported with exit code 1,
with what it waits for; it goes on being released.`,
		Example: "  berth node orphans end 4ff1d9c5\n  berth node orphans end -all -yes",
		Run: func(ctx context.Context, args []string) error {
			if s.all == (len(args) > 0) {
				return kit.Usage("give either allocations or -all")
			}
			return s.do(ctx, args)
		},
	}
	cmd.Flags().BoolVar(&s.all, "all", false, "all of them")
	s.yes.AddTo(cmd)
	cmd.Flags().BoolVar(&s.detach, "detach", false, "do not wait until it is over")
	cmd.Flags().StringVar(&s.node, "node", "", "only those of this `node`")
	return cmd
}

func (s *orphansEnd) do(ctx context.Context, args []string) error {
	list, err := allOrphans(ctx, s.env, s.node)
	if err != nil {
		return err
	}
	var chosen []located
	for _, arg := range args {
		l, err := pickOrphan(list, arg)
		if err != nil {
			return err
		}
		chosen = append(chosen, l)
	}
	if s.all {
		chosen = list
	}
	if len(chosen) == 0 {
		s.env.Out.Printf("No orphans\n")
		return nil
	}
	for _, l := range chosen {
		s.env.Err.Printf("%s of job %q on node %s\n", l.orphan.AllocID, l.orphan.JobID, kit.ID(l.node.ID, false))
	}
	err = s.env.Confirm(s.yes, "End what is listed above, with its tasks?", "say that you mean it with -yes")
	if err != nil {
		return err
	}
	c := s.env.Client()
	slices.SortStableFunc(chosen, func(a, b located) int { return int(turnOf(a.orphan)) - int(turnOf(b.orphan)) })
	for i, l := range chosen {
		if i > 0 && turnOf(l.orphan) == servesOthers && turnOf(chosen[i-1].orphan) != servesOthers {
			if err := s.awaitGone(ctx, c, chosen[:i]); err != nil {
				return err
			}
		}
		if err := c.Nodes().EndOrphan(ctx, l.node.ID, l.orphan.AllocID, nil); err != nil {
			return kit.Doing(err, "end", "orphan", l.orphan.AllocID)
		}
	}
	if s.detach {
		s.env.Out.Printf("Ending %s\n", kit.Count(len(chosen), "orphan", "orphans"))
		return nil
	}
	if err := s.awaitGone(ctx, c, chosen); err != nil {
		return err
	}
	return s.released(ctx, chosen)
}

// turn is when an orphan is ended.
type turn uint8

// Turns. One that runs a storage plugin comes last, when the others have released their volumes through it. A plugin
// whose node has lost its record serves nobody: what waited for that would wait for ever, for only its end lets the
// servers run it anew.
const (
	usesOthers turn = iota
	servesNobody
	servesOthers
)

func turnOf(o *api.NodeOrphan) turn {
	switch {
	case !o.Plugin:
		return usesOthers
	case o.RecordLost:
		return servesNobody
	}
	return servesOthers
}

// awaitGone follows the nodes until they list none of the orphans any longer.
func (s *orphansEnd) awaitGone(ctx context.Context, c *api.Client, list []located) error {
	for _, l := range list {
		if err := awaitGone(ctx, s.env, c, l); err != nil {
			return err
		}
	}
	return nil
}

// released follows the volumes of orphans that have gone: of one whose record was lost the servers may know what it has
// of them. Where the plugin that they are released through was an orphan, too, that is up to its successor.
func (s *orphansEnd) released(ctx context.Context, list []located) error {
	for _, l := range list {
		if err := follow.New(s.env, false, false).Released(ctx, l.orphan.AllocID); err != nil {
			return err
		}
		s.env.Out.Printf("Allocation %q has ended\n", l.orphan.AllocID)
	}
	return nil
}

// pickOrphan finds the one orphan that an argument means.
func pickOrphan(list []located, arg string) (located, error) {
	var found []located
	for _, l := range list {
		if arg != "" && strings.HasPrefix(l.orphan.AllocID, arg) {
			found = append(found, l)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		err := kit.Fail(fault.NotFound, `"berth node orphans list" lists them`, "there is no orphan %q", arg)
		return located{}, err
	}
	return located{},
		kit.Fail(fault.Invalid, "write more of the id", "%q could mean each of %d orphans", arg, len(found))
}

// awaitGone follows the node until it lists the orphan no longer, and says what that waits for.
func awaitGone(ctx context.Context, e *kit.Env, c *api.Client, l located) error {
	said := ""
	return follow.Watch(ctx, "", func(o *api.QueryOptions) (bool, *api.QueryMeta, error) {
		n, meta, err := c.Nodes().Get(ctx, l.node.ID, o)
		if err != nil {
			return false, nil, kit.Doing(err, "follow", "node", l.node.ID)
		}
		for _, x := range n.Orphans {
			if x.AllocID != l.orphan.AllocID {
				continue
			}
			if text := kit.OneSentence(x.Awaits); text != "" && text != said {
				said = text
				follow.New(e, false, false).Waits(l.orphan.AllocID, text)
			}
			return false, meta, nil
		}
		return true, meta, nil
	})
}
