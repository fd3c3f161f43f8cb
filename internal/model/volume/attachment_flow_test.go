package volume

import (
	"slices"
	"testing"

	"berth/internal/base/ids"
)

// attachWorlds calls fn with every combination of two nodes' claims, attachments and inventories.
func attachWorlds(fn func(f AttachFacts)) {
	nodes := []ids.Node{"n1", "n2"}
	states := []ClaimState{"", Queued, Held, Releasing}
	none := Presence(255)
	presences := []Presence{none, Absent, Uncertain, Present, Lost}
	for bits := range 1 << 7 {
		for c1 := range states {
			for c2 := range states {
				for p1 := range presences {
					for p2 := range presences {
						f := AttachFacts{
							Known:       bits&1 > 0,
							NeedsAttach: bits&2 > 0,
							SingleNode:  bits&4 > 0,
							OnNode:      map[ids.Node]bool{},
						}
						for i, n := range nodes {
							if s := states[[]int{c1, c2}[i]]; s != "" {
								f.Claims = append(f.Claims, &Claim{Node: n, State: s, Alloc: ids.Alloc("a-" + n)})
							}
							if p := presences[[]int{p1, p2}[i]]; p != none {
								f.Attachments = append(f.Attachments,
									&Attachment{Node: n, Presence: p, Detaching: bits&(8<<i) > 0})
							}
							f.OnNode[n] = bits&(32<<i) > 0
						}
						fn(f)
					}
				}
			}
		}
	}
}

func TestNextAttachmentsForEveryCombination(t *testing.T) {
	attachWorlds(func(f AttachFacts) {
		steps, wait := NextAttachments(f)
		attachment := func(n ids.Node) *Attachment {
			for _, a := range f.Attachments {
				if a.Node == n {
					return a
				}
			}
			return nil
		}
		state := func(n ids.Node) ClaimState {
			for _, c := range f.Claims {
				if c.Node == n {
					return c.State
				}
			}
			return ""
		}
		for _, s := range steps {
			a, claim := attachment(s.Node), state(s.Node)
			refuse := func(when bool, why string) {
				if when {
					t.Fatalf("%+v although %s: %+v", s, why, f)
				}
			}
			if s.Verb == Forget {
				refuse(a == nil || a.Presence.Exists(), "it may be attached")
				refuse(claim == Held || claim == Releasing || f.OnNode[s.Node], "it is wanted")
				continue
			}
			if s.Verb == Detach {
				refuse(a != nil && !a.Presence.Exists(), "it is detached")
				refuse(a == nil, "nothing is attached")
				refuse(a != nil && !a.Detaching && (claim == Held || claim == Releasing), "a claim is there")
				refuse(a != nil && !a.Detaching && f.OnNode[s.Node], "the node still has it")
				continue
			}
			refuse(!f.NeedsAttach, "the plugin does not attach")
			refuse(claim != Held, "no claim is held there")
			refuse(a != nil && a.Presence.Exists() && (a.Presence == Present || a.Detaching),
				"it is attached, or a detach was begun")
			for _, o := range f.Attachments {
				refuse(f.SingleNode && o.Node != s.Node && o.Presence.Exists(), "it may be attached elsewhere")
			}
		}
		if len(steps) == 0 && wait == "" && f.Known && f.NeedsAttach {
			for _, n := range []ids.Node{"n1", "n2"} {
				if a := attachment(n); state(n) == Held && (a == nil || a.Presence != Present) {
					t.Fatalf("a held claim is left without attachment, step or reason: %+v", f)
				}
			}
		}
		seen := map[AttachStep]bool{}
		for _, s := range steps {
			if seen[s] {
				t.Fatalf("the same step twice: %+v", steps)
			}
			seen[s] = true
		}
	})
}

// TestADetachThatFailsHoldsUpNobodyElse: a volume of several nodes is attached to one while it can't leave another.
func TestADetachThatFailsHoldsUpNobodyElse(t *testing.T) {
	f := AttachFacts{Known: true, NeedsAttach: true, Claims: []*Claim{{Node: "n2", State: Held}},
		Attachments: []*Attachment{{Node: "n1", Presence: Uncertain, Detaching: true}}}
	steps, _ := NextAttachments(f)
	if !slices.Contains(steps, AttachStep{Attach, "n2"}) || !slices.Contains(steps, AttachStep{Detach, "n1"}) {
		t.Errorf("steps %+v", steps)
	}
	f.SingleNode = true
	if steps, wait := NextAttachments(f); slices.Contains(steps, AttachStep{Attach, "n2"}) || wait == "" {
		t.Errorf("a single-node volume: %+v, %q", steps, wait)
	}
}
