package follow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// Explain says group by group, and node by node, why allocations have no place, and what would help.
func Explain(
	p *kit.Printer, indent string, failed map[string]*api.AllocationMetric, queued map[string]int, verbose bool,
) {
	for _, group := range slices.Sorted(maps.Keys(failed)) {
		m := failed[group]
		if m == nil {
			continue
		}
		n := queued[group]
		if n == 0 {
			n = m.CoalescedFailures + 1
		}
		p.Printf("%s%s\n", indent,
			p.Bold(fmt.Sprintf("Group %q: %s without a place", kit.Clean(group),
				kit.Count(n, "allocation", "allocations"))))
		lines := reasons(m, verbose)
		if len(lines) == 0 {
			lines = counts(m)
		}
		for _, line := range lines {
			p.Printf("%s  * %s\n", indent, kit.Clean(line))
		}
	}
}

// mostLines is how many refusals are shown without -verbose: figures differ from node to node.
const mostLines = 8

// reasons are the refusals of nodes, with those that say the same in one line.
func reasons(m *api.AllocationMetric, verbose bool) []string {
	type refusal struct{ reason, hint string }
	var order []refusal
	nodes := map[refusal][]api.NodeReason{}
	for _, r := range m.Reasons {
		key := refusal{r.Reason, r.Hint}
		if nodes[key] == nil {
			order = append(order, key)
		}
		nodes[key] = append(nodes[key], r)
	}
	var out []string
	for i, key := range order {
		if rest := len(order) - i; i == mostLines && rest > 1 && !verbose {
			return append(out, fmt.Sprintf("%d more reasons of other nodes (-verbose lists them)", rest))
		}
		text := who(names(nodes[key], verbose)) + ": " + key.reason
		if key.hint != "" {
			text += " (" + key.hint + ")"
		}
		out = append(out, text)
	}
	return out
}

// names are those of nodes, each once. Nodes of one name, as one that was replaced and its successor, are told apart by
// their ids.
func names(list []api.NodeReason, verbose bool) []string {
	ids := map[string][]string{} // by name
	for _, r := range list {
		if !slices.Contains(ids[r.Name], r.Node) {
			ids[r.Name] = append(ids[r.Name], r.Node)
		}
	}
	var out []string
	for _, r := range list {
		name := r.Name
		switch {
		case name == "" || verbose && r.Node != "":
			name = kit.ID(r.Node, verbose)
		case len(ids[name]) > 1:
			name += " (" + kit.ID(r.Node, false) + ")"
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// who names a few nodes.
func who(names []string) string {
	const few = 3
	switch {
	case len(names) == 1 && names[0] == "every node":
		return names[0]
	case len(names) == 1:
		return "node " + names[0]
	case len(names) > few:
		return fmt.Sprintf("nodes %s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return "nodes " + strings.Join(names, ", ")
}

// counts are the sums that an agent gives which does not name nodes.
func counts(m *api.AllocationMetric) []string {
	var out []string
	if m.NodesEvaluated == 0 {
		out = append(out, `no node was there to be considered; "berth node status" tells which are ready and eligible`)
	}
	for _, dc := range slices.Sorted(maps.Keys(m.NodesAvailable)) {
		if m.NodesAvailable[dc] == 0 {
			out = append(out, fmt.Sprintf("datacenter %q has no ready node", dc))
		}
	}
	add := func(in map[string]int, format string) {
		for _, key := range slices.Sorted(maps.Keys(in)) {
			out = append(out, fmt.Sprintf(format, key, kit.Count(in[key], "node", "nodes")))
		}
	}
	add(m.ClassFiltered, "class %q leaves out %s")
	add(m.ConstraintFiltered, "%s: leaves out %s")
	add(m.ClassExhausted, "class %q is full on %s")
	add(m.DimensionExhausted, "not enough %s on %s")
	return out
}
