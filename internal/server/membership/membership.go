// Package membership owns which servers there are: what each of them knows and says of itself, and, on the one that
// leads, who keeps the log and who votes. The list is replicated; there is no gossip. Only package server constructs
// it.
package membership

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// List are the servers of a state, and the index as of which they are.
func List(s *state.Snap, w *state.Watch) ([]trust.ServerAt, uint64) {
	return trust.Listed(s.Members(w, trust.Server)), s.TableIndex(state.Members)
}

// Standing is one server's place among the others.
type Standing struct {
	Name    string
	Address string // of its TLS port, as others reach it
	Seal    []byte // its public key for what is sealed for it alone
	Store   *state.Store
	Own     *credentials.Credentials
	// Leader is the server that leads as far as this one knows; the channel is closed when that changes.
	Leader func() (string, <-chan struct{})
	// Servers are the methods of the servers, as this one passes them on.
	Servers wire.Conn
	Log     *slog.Logger
}

// Timing of what a server does for its place.
const (
	// leaderless is how long it hears of no leader before it asks whether it was removed.
	leaderless     = 15 * time.Second
	announceBudget = 20 * time.Second
	// yieldTimeout is how long one that was removed waits until it leads no more, and farewell how long for calls.
	yieldTimeout = 10 * time.Second
	farewell     = 500 * time.Millisecond
)

var again = retry.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}

// Run remembers the servers, says where this one is, and ends with an error when it was removed.
func (s *Standing) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("learn", func() error { return s.learn(gctx) })
	g.Go("announce", func() error { return s.announce(gctx) })
	g.Go("ask", func() error { return s.ask(gctx) })
	return g.Wait()
}

// learn keeps the list beside the log: a server that starts has no state before it has met others.
func (s *Standing) learn(ctx context.Context) error {
	for tries := 0; ; {
		snap, w := s.Store.Snapshot(), state.NewWatch()
		if m := snap.Member(w, trust.Server, s.Name); m != nil && m.Gone() {
			s.yield(ctx)
			return m.Accepts(m.Key)
		}
		list, asOf := List(snap, w)
		if len(list) > 0 {
			if err := errors.Join(s.Own.Begin(true), s.Own.Learn(list, asOf)); err != nil {
				s.Log.Error("the list of servers could not be written; it is tried again", logkey.Error, err)
				tries++
				if !again.Sleep(ctx, tries) {
					return nil
				}
				continue
			}
		}
		tries = 0
		if w.Wait(ctx) != nil {
			return nil
		}
	}
}

// yield waits until this server, which was removed, leads no more, and calls that are under way are answered: that of
// the person who removed it may be among them.
func (s *Standing) yield(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, yieldTimeout)
	defer cancel()
	for {
		leader, changed := s.Leader()
		if leader != s.Name {
			retry.Sleep(ctx, farewell)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// announce says where this server is found whenever the list says something else.
func (s *Standing) announce(ctx context.Context) error {
	key, err := s.Own.KeyID()
	if err != nil {
		return err
	}
	self := trust.ServerAt{Name: s.Name, Address: s.Address, Key: key}
	for tries := 0; ; {
		snap, w := s.Store.Snapshot(), state.NewWatch()
		m, meta := snap.Member(w, trust.Server, s.Name), snap.Meta(w)
		same := m != nil && m.Address == self.Address && m.Key == self.Key && bytes.Equal(m.Seal, s.Seal)
		if s.Address == "" || meta == nil || meta.Schema < joining.ServersSchema || same || m != nil && m.Gone() {
			tries = 0
			if w.Wait(ctx) != nil {
				return nil
			}
			continue
		}
		actx, cancel := context.WithTimeout(ctx, announceBudget)
		_, err := wire.ServerAnnounce.Call(actx, s.Servers, &wire.AnnounceRequest{ServerAt: self, Seal: s.Seal})
		cancel()
		if err != nil && ctx.Err() == nil && !fault.Has(err, fault.Unavailable) {
			s.Log.Warn("the servers do not take down where this one is; it is tried again", logkey.Error, err)
		}
		tries++ // also where it was taken down: the state follows
		if !again.Sleep(ctx, tries) {
			return nil
		}
	}
}

// ask finds out whether this server was removed while it was off: the others tell those who have not joined, and them
// alone.
func (s *Standing) ask(ctx context.Context) error {
	self := credentials.Self{ID: s.Name, Address: s.Address, Seal: s.Seal}
	for {
		leader, changed := s.Leader()
		if leader != "" {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
			continue
		}
		if !retry.SleepOr(ctx, leaderless, changed) {
			return nil
		}
		if leader, _ := s.Leader(); leader != "" || !s.others() {
			continue
		}
		if err := s.Own.Ask(ctx, self); trust.IsRemoved(err) {
			return err
		}
	}
}

// others reports whether there are any.
func (s *Standing) others() bool {
	for _, o := range s.Own.Servers() {
		if o.Name != s.Name {
			return true
		}
	}
	return false
}
