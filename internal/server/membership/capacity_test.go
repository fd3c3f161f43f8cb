package membership

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"berth/internal/port/raftlog"
	"berth/internal/wire"
)

// giver is a log whose leadership is given away.
type giver struct {
	group
	to string
}

func (g *giver) Transfer(_ context.Context, to string) error {
	g.to = to
	return nil
}

// TestOneWithCapacityLeads: a server that leads and refuses new work for want of room has the one lead, of those that
// vote, answer and stay, that has room and most of the log; with room, or where nobody has more, it goes on.
func TestOneWithCapacityLeads(t *testing.T) {
	const full = "35 MiB are free"
	for _, c := range []struct {
		what string
		mine string
		its  map[string]*wire.ProgressReply
		to   string
	}{
		{"it has room", "", map[string]*wire.ProgressReply{"b": {}}, ""},
		{"another has room", full, map[string]*wire.ProgressReply{"b": {Full: full}, "c": {Last: 1}}, "c"},
		{"two have", full, map[string]*wire.ProgressReply{"b": {Last: 1}, "c": {Last: 2}}, "c"},
		{"nobody has", full, map[string]*wire.ProgressReply{"b": {Full: full}}, ""},
		{"it cannot lead", full, map[string]*wire.ProgressReply{"b": {Unready: "no key"}}, ""},
		{"it stops", full, map[string]*wire.ProgressReply{"b": {Stops: true}, "c": {Leaves: true}}, ""},
		{"it does not vote", full, map[string]*wire.ProgressReply{"n": {}}, ""},
		{"nobody answers", full, nil, ""},
	} {
		g := &giver{group: group{members: []raftlog.Member{
			{ID: "a", Voter: true}, {ID: "b", Voter: true}, {ID: "c", Voter: true}, {ID: "n"},
		}}}
		k := &Keeper{
			Name:     "a",
			Raft:     g,
			Contacts: g.contacts,
			Ask: func(_ context.Context, name string) (*wire.ProgressReply, error) {
				if name == "a" {
					return &wire.ProgressReply{Full: c.mine}, nil
				}
				if p := c.its[name]; p != nil {
					return p, nil
				}
				return nil, errors.New("it does not answer")
			},
			Log: slog.New(slog.DiscardHandler),
		}
		if k.yield(t.Context()); g.to != c.to {
			t.Errorf("%s: %q leads, want %q", c.what, g.to, c.to)
		}
	}
}
