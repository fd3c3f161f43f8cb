package lineage

import "testing"

func TestRelate(t *testing.T) {
	now := Point{Incarnation: "i", Mark: "m3", Index: 100}
	old, newest := &Mark{ID: "m2", Index: 10, Next: 58}, &Mark{ID: "m3", Index: 58}
	cases := []struct {
		what string
		seen Point
		mark *Mark
		want Relation
	}{
		{"nothing was seen", Point{}, nil, Continues},
		{"another incarnation", Point{Incarnation: "j", Mark: "m2", Index: 20}, old, Foreign},
		{"an earlier leadership of this history", Point{Incarnation: "i", Mark: "m2", Index: 20}, old, Continues},
		{"the mark's own command", Point{Incarnation: "i", Mark: "m2", Index: 10}, old, Continues},
		{"the last command of an earlier leadership", Point{Incarnation: "i", Mark: "m2", Index: 57}, old, Continues},
		{"a leadership that was longer in another history", Point{Incarnation: "i", Mark: "m2", Index: 58}, old,
			Forked},
		{"and much longer, though this one is longer still", Point{Incarnation: "i", Mark: "m2", Index: 77}, old,
			Forked},
		{"a leadership that this history never had", Point{Incarnation: "i", Mark: "mx", Index: 20}, nil, Forked},
		{"before its own mark", Point{Incarnation: "i", Mark: "m3", Index: 57}, newest, Forked},
		{"this leadership, now", Point{Incarnation: "i", Mark: "m3", Index: 100}, newest, Continues},
		{"this leadership, later", Point{Incarnation: "i", Mark: "m3", Index: 101}, newest, Behind},
		{"recorded before there were marks", Point{Incarnation: "i", Index: 90}, nil, Continues},
		{"recorded before there were marks, at an index that is not reached", Point{Incarnation: "i", Index: 101}, nil,
			Forked},
		{"of another incarnation, before there were marks", Point{Incarnation: "j", Index: 1}, nil, Foreign},
	}
	for _, c := range cases {
		if got := Relate(now, c.seen, c.mark); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
