package session

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/allocs"
	"berth/internal/client/drivermanager"
	"berth/internal/client/localstate"
	"berth/internal/client/servers"
	"berth/internal/model/lineage"
	"berth/internal/wire"
)

// nobody is where no server answers.
type nobody struct{}

// Dial implements servers.Dialer.
func (nobody) Dial(context.Context) (net.Conn, error) { return nil, errors.New("nobody answers") }

// registered is the session of a node that has nothing, registered in a state that it has seen up to a point.
func registered(t *testing.T, seen lineage.Point) *Session {
	t.Helper()
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	store, err := localstate.Open(filepath.Join(dir, "client"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	loaded, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	drivers, err := drivermanager.New(drivermanager.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	link, err := servers.Connect(nobody{}, localstate.Identity{Node: "n"}, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() }) // it was never connected
	s := New(Config{
		Link: link,
		Gate: &servers.Gate{},
		Allocs: allocs.New(allocs.Config{
			Holdings: allocs.NewHoldings(allocs.NewTable(dir, loaded, log), nil, nil),
			Store:    store,
			Link:     link,
			Drivers:  drivers,
			Log:      log,
		}),
		Seen: seen,
		Log:  log,
	})
	s.incarnation = "one"
	return s
}

// Given the answer to a heartbeat, then the node registers anew if it is asked to, or another incarnation has begun:
// one that keeps what another state placed hears of that by nothing else.
func TestANodeRegistersInANewIncarnation(t *testing.T) {
	s := registered(t, lineage.Point{Incarnation: "another", Mark: "m", Index: 10})
	s.due.take()
	for _, c := range []struct {
		reply wire.NodeHeartbeatReply
		asked bool
	}{
		{wire.NodeHeartbeatReply{Incarnation: "one"}, false},
		{wire.NodeHeartbeatReply{}, false}, // of a server that does not say it
		{wire.NodeHeartbeatReply{Incarnation: "two"}, true},
		{wire.NodeHeartbeatReply{Incarnation: "one", Reregister: true}, true},
	} {
		if s.beaten(&c.reply); s.due.take() != c.asked {
			t.Errorf("%+v: asked is not %v", c.reply, c.asked)
		}
	}
}

// Given a set of allocs, then the node acts on it if it is of the state that it registered in and no older than what
// the node has seen; it is armed by a whole set alone, and what it has acted on it has seen.
func TestASetIsTakenWhenItGoesOnFromWhatTheNodeHasSeen(t *testing.T) {
	seen := lineage.Point{Incarnation: "one", Mark: "m", Index: 10}
	at := func(incarnation string, index uint64) lineage.Point {
		return lineage.Point{Incarnation: incarnation, Mark: "m", Index: index}
	}
	whole := func(at lineage.Point, is lineage.Relation) wire.AllocSet {
		return wire.AllocSet{Full: true, At: at, Relation: is}
	}
	for what, c := range map[string]struct {
		set   wire.AllocSet
		kind  fault.Kind // of the refusal; 0: it is taken
		armed bool
	}{
		"the whole":                   {whole(at("one", 12), lineage.Continues), 0, true},
		"a change":                    {wire.AllocSet{At: at("one", 12)}, 0, false},
		"what it has seen":            {wire.AllocSet{At: at("one", 10)}, 0, false},
		"an older change":             {wire.AllocSet{At: at("one", 9)}, fault.NotReady, false},
		"of another incarnation":      {whole(at("two", 12), lineage.Continues), fault.Conflict, false},
		"a change of another":         {wire.AllocSet{At: at("two", 12)}, fault.Conflict, false},
		"what another one has placed": {whole(at("one", 12), lineage.Foreign), fault.Conflict, false},
		"of a server that lags":       {whole(at("one", 9), lineage.Behind), fault.NotReady, false},
		"of a restored state":         {whole(at("one", 3), lineage.Forked), 0, true},
	} {
		t.Run(what, func(t *testing.T) {
			s := registered(t, seen)
			marked := s.Marked()
			err := s.take(t.Context(), &c.set)
			if taken := c.kind == 0; taken && err != nil || !taken && !fault.Has(err, c.kind) {
				t.Errorf("it ended with %v", err)
			}
			if s.gate.Armed() != c.armed {
				t.Errorf("the node is armed: %v", s.gate.Armed())
			}
			if want := map[bool]lineage.Point{true: c.set.At, false: seen}[c.kind == 0]; s.Seen() != want {
				t.Errorf("it has seen %+v, want %+v", s.Seen(), want)
			}
			select {
			case <-marked:
				if !c.armed {
					t.Error("a change counts as the whole")
				}
			default:
				if c.armed {
					t.Error("nobody heard that the whole was acted on")
				}
			}
		})
	}
}

// Given answers of the servers, then the node beats by the time to live that they said last; an answer without one
// leaves it.
func TestANodeBeatsByTheTimeToLiveThatItWasGiven(t *testing.T) {
	s := registered(t, lineage.Point{Incarnation: "one", Mark: "m", Index: 10})
	for _, c := range []struct{ said, want time.Duration }{
		{3 * time.Second, 3 * time.Second},
		{0, 3 * time.Second},
		{time.Second, time.Second},
	} {
		s.beaten(&wire.NodeHeartbeatReply{TTL: c.said})
		if ttl, last := s.Heartbeat(); ttl != c.want || last.IsZero() {
			t.Errorf("after %s it beats by %s, last at %s", c.said, ttl, last)
		}
	}
}
