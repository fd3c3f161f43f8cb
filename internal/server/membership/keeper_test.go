package membership

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// group is a log that is kept by whoever is added.
type group struct {
	mu      sync.Mutex
	members []raftlog.Member
	votes   time.Time // since when the second votes
}

func (g *group) Members() ([]raftlog.Member, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]raftlog.Member(nil), g.members...), nil
}

func (g *group) Add(_ context.Context, id string, voter bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !voter {
		g.members = append(g.members, raftlog.Member{ID: id})
		return nil
	}
	for i := range g.members {
		if g.members[i].ID == id {
			g.members[i].Voter = true
			g.votes = time.Now()
		}
	}
	return nil
}

func (g *group) Remove(context.Context, string) error    { return errors.New("nobody is to leave") }
func (g *group) Transfer(context.Context, string) error  { return errors.New("nobody else is to lead") }
func (g *group) Progress() (p raftlog.Progress, _ error) { return p, nil }
func (g *group) contacts() (_ map[string]raftlog.Contact, since time.Time, _ <-chan struct{}) {
	return nil, since, nil
}

// Given a server that joins, then it votes when it has been well for as long as operators say, and that time begins
// anew where it was not well in between.
func TestANewServerVotesOnceItHasBeenWellForLongEnough(t *testing.T) {
	for what, c := range map[string]struct {
		expect     int
		ill, least time.Duration
	}{
		"it is well":                          {1, 0, 10 * time.Second},
		"it is not for six seconds":           {1, 6 * time.Second, 21 * time.Second},
		"fewer vote than there are to be":     {2, 0, 0},
		"they do, and it is not all the time": {2, 6 * time.Second, 0},
	} {
		expect, ill := c.expect, c.ill
		least := c.least
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := localstate.New(t)
				for _, name := range []string{"s1", "s2"} {
					c.Must(t, &joining.ServerPut{Name: name, Address: name + ":4647", Leads: true})
				}
				g := &group{members: []raftlog.Member{{ID: "s1", Voter: true}}}
				begun := time.Now()
				k := &Keeper{
					Name:     "s1",
					Expect:   expect,
					Store:    c.Store,
					Raft:     g,
					Raise:    func(context.Context) error { return nil },
					Contacts: g.contacts,
					Proposer: c,
					Ask: func(context.Context, string) (*wire.ProgressReply, error) {
						if at := time.Since(begun); at > 5*time.Second && at < 5*time.Second+ill {
							return nil, errors.New("it does not answer")
						}
						return &wire.ProgressReply{Schema: fsm.Schema()}, nil
					},
					Log: slog.New(slog.DiscardHandler),
				}
				run, ctx := lifecycle.NewGroup(t.Context())
				run.Go("keeper", func() error { return k.Run(ctx) })
				time.Sleep(time.Minute)
				run.Stop()
				if err := run.Wait(); err != nil {
					t.Error(err)
				}
				if after := g.votes.Sub(begun); after < least || after > least+5*time.Second {
					t.Errorf("it votes after %s, want %s", after, least)
				}
			})
		})
	}
}
