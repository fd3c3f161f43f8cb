package state

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/base/ids"
	"berth/internal/model/node"
)

// members are the nodes of each group as the table of nodes has them.
func members(s *Snap) map[node.Group][]ids.Node {
	out := map[node.Group][]ids.Node{}
	for n := range s.Nodes(nil, "") {
		out[n.Group()] = append(out[n.Group()], n.ID)
	}
	return out
}

// grouped are the same as the index and the counts have them.
func grouped(t *rapid.T, s *Snap) map[node.Group][]ids.Node {
	out := map[node.Group][]ids.Node{}
	for g := range s.NodeGroups() {
		for n := range s.NodesOf(g.Group, "") {
			out[g.Group] = append(out[g.Group], n.ID)
		}
		if len(out[g.Group]) != g.Nodes {
			t.Fatalf("group %+v is said to have %d nodes, and has %v", g.Group, g.Nodes, out[g.Group])
		}
		for _, from := range append(slices.Clone(out[g.Group]), "n", "~") {
			at, _ := slices.BinarySearch(out[g.Group], from)
			var since []ids.Node
			for n := range s.NodesOf(g.Group, from) {
				since = append(since, n.ID)
			}
			if !slices.Equal(since, out[g.Group][at:]) {
				t.Fatalf("%+v from %q: %v, want %v", g.Group, from, since, out[g.Group][at:])
			}
		}
	}
	return out
}

// TestNodesAreKnownByTheirGroups writes, changes and removes nodes, with steps that fail: the groups are always those
// of the nodes, in old snapshots those of then, and after a restore the same.
func TestNodesAreKnownByTheirGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, index := New(), uint64(0)
		var old *Snap
		var then map[node.Group][]ids.Node
		write := func(fn func(tx *Tx) error) {
			index++
			_ = s.Write(Stamp{Index: index}, fn) // some fail on purpose
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				fails := rapid.Bool().Draw(t, "fails")
				status := rapid.SampledFrom([]string{node.StatusReady, node.StatusDown})
				write(func(tx *Tx) error {
					tx.PutNode(&node.Node{
						ID:                    ids.Node(fmt.Sprint("n", rapid.IntRange(0, 9).Draw(t, "node"))),
						NodePool:              rapid.SampledFrom([]string{"", "default", "p"}).Draw(t, "pool"),
						Datacenter:            rapid.SampledFrom([]string{"a", "ab"}).Draw(t, "datacenter"),
						Status:                status.Draw(t, "status"),
						SchedulingEligibility: node.Eligible,
					})
					if fails {
						return fmt.Errorf("it is refused")
					}
					return nil
				})
			},
			"delete": func(t *rapid.T) {
				write(func(tx *Tx) error {
					tx.DeleteNode(ids.Node(fmt.Sprint("n", rapid.IntRange(0, 9).Draw(t, "node"))))
					return nil
				})
			},
			"look": func(*rapid.T) { old, then = s.Snapshot(), members(s.Snapshot()) },
			"restore": func(t *rapid.T) {
				var saved bytes.Buffer
				if err := s.Snapshot().Persist(&saved); err != nil {
					t.Fatal(err)
				}
				if err := s.Restore(&saved); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				now := s.Snapshot()
				if got, want := grouped(t, now), members(now); !maps.EqualFunc(got, want, slices.Equal) {
					t.Fatalf("groups %v, nodes %v", got, want)
				}
				if old != nil && !maps.EqualFunc(grouped(t, old), then, slices.Equal) {
					t.Fatalf("an old snapshot shows %v, and showed %v", grouped(t, old), then)
				}
			},
		})
	})
}
