package session_test

import (
	"testing"

	"berth/internal/client/session"
	"berth/internal/model/lineage"
)

// TestWhichStateANodeFollows: one that goes on from what the node has seen, or any when nothing is held.
func TestWhichStateANodeFollows(t *testing.T) {
	seen := lineage.Point{Incarnation: "one", Mark: "m", Index: 7}
	for name, c := range map[string]struct {
		seen    lineage.Point
		holds   bool
		now     string
		parents []string
		want    session.Standing
	}{
		"a new node":                     {lineage.Point{}, true, "two", nil, session.Follows},
		"the same":                       {seen, true, "one", nil, session.Follows},
		"restored":                       {seen, true, "two", []string{"zero", "one"}, session.Follows},
		"another, something is held":     {seen, true, "two", []string{"zero"}, session.Keeps},
		"another, nothing is held":       {seen, false, "two", nil, session.FollowsAnew},
		"back to one that was left, too": {seen, true, "zero", nil, session.Keeps},
	} {
		if got := session.Stand(c.seen, c.holds, c.now, c.parents); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestWhichSetsAreActedOn goes through whole sets and changes, of every relation.
func TestWhichSetsAreActedOn(t *testing.T) {
	seen := lineage.Point{Incarnation: "one", Mark: "m", Index: 7}
	for full, wants := range map[bool]map[lineage.Relation]session.Reception{
		true: {
			lineage.Continues: session.Acted,
			lineage.Forked:    session.ActedWary,
			lineage.Behind:    session.Late,
			lineage.Foreign:   session.Foreign,
		},
		false: { // a change of a set has no relation: the stream began with a whole one
			lineage.Forked: session.Acted,
		},
	} {
		for relation, want := range wants {
			set := session.Set{Full: full, At: seen, Relation: relation}
			if got := session.Receive("one", seen, set); got != want {
				t.Errorf("full %t, %s: %d, want %d", full, relation, got, want)
			}
			if got := session.Receive("two", seen, set); got != session.Elsewhere {
				t.Errorf("full %t, %s, registered elsewhere: %d", full, relation, got)
			}
		}
	}
	late := session.Set{At: lineage.Point{Incarnation: "one", Mark: "m", Index: 6}}
	if got := session.Receive("one", seen, late); got != session.Late {
		t.Errorf("a change that is older than what was seen: %d", got)
	}
}
