package raftlog

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
)

// Member is a server that the log is kept by.
type Member struct {
	ID    string
	Voter bool // it counts for a majority
}

// Members are those of the newest configuration of the log, which may not be committed yet.
func (l *Log) Members() ([]Member, error) {
	r, _, _, err := l.running()
	if err != nil {
		return nil, err
	}
	f := r.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "read", "members of the log")
	}
	var out []Member
	for _, s := range f.Configuration().Servers {
		out = append(out, Member{ID: string(s.ID), Voter: s.Suffrage == raft.Voter})
	}
	return out, nil
}

// Voters are the members that vote, by their ids.
func (l *Log) Voters() (out []string, err error) {
	members, err := l.Members()
	for _, m := range members {
		if m.Voter {
			out = append(out, m.ID)
		}
	}
	return out, err
}

// Add makes a server a member, with a vote or without one, which it takes from one that has it. Only the one that leads
// can. A server whose log is
// behind must not vote yet: while it catches up nothing would be acknowledged where it is needed for a majority.
func (l *Log) Add(ctx context.Context, id string, voter bool) error {
	voters, err := l.Voters()
	if err != nil {
		return err
	}
	return l.wait(ctx, "add server "+id, func(r *raft.Raft) raft.Future {
		switch {
		case voter:
			return r.AddVoter(raft.ServerID(id), raft.ServerAddress(id), 0, 0)
		case slices.Contains(voters, id):
			return r.DemoteVoter(raft.ServerID(id), 0, 0)
		}
		return r.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), 0, 0)
	})
}

// Remove ends the membership of a server. Only the one that leads can.
func (l *Log) Remove(ctx context.Context, id string) error {
	return l.wait(ctx, "remove server "+id, func(r *raft.Raft) raft.Future {
		return r.RemoveServer(raft.ServerID(id), 0, 0)
	})
}

// Transfer has another server lead: the one of that id, or the one that has most of the log if it is empty.
func (l *Log) Transfer(ctx context.Context, id string) error {
	return l.wait(ctx, "give away the leadership", func(r *raft.Raft) raft.Future {
		if id == "" {
			return r.LeadershipTransfer()
		}
		return r.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(id))
	})
}

// Progress is how far this server's log is.
type Progress struct {
	Last     uint64 // entry on its disk
	LastTerm uint64 // of Raft, that it has reached
	Applied  uint64
}

// Progress tells how far this server's log is.
func (l *Log) Progress() (Progress, error) {
	r, _, _, err := l.running()
	if err != nil {
		return Progress{}, err
	}
	return Progress{Last: r.LastIndex(), LastTerm: r.CurrentTerm(), Applied: r.AppliedIndex()}, nil
}

// Contact is whether a server answers the one that leads.
type Contact struct {
	Silent bool
	Since  time.Time
}

// Contacts are how the other servers answer while this one leads; who is not there has answered since it leads, which
// is since the time that it returns. The channel is closed when that changes.
func (l *Log) Contacts() (of map[string]Contact, since time.Time, changed <-chan struct{}) {
	changed = l.heard.C()
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.contact), l.since, changed
}

// contacts has the log know who answers while this server leads, until ctx ends.
func (l *Log) contacts(ctx context.Context, g *lifecycle.Group, r *raft.Raft) {
	seen := make(chan raft.Observation, 64)
	o := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.FailedHeartbeatObservation, raft.ResumedHeartbeatObservation, raft.RaftState:
			return true
		}
		return false
	})
	r.RegisterObserver(o)
	g.Go("contacts", func() error {
		defer r.DeregisterObserver(o)
		for {
			select {
			case <-ctx.Done():
				return nil
			case o := <-seen:
				l.observed(o.Data)
			}
		}
	})
}

func (l *Log) observed(of any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.contact == nil {
		l.contact = map[string]Contact{}
	}
	switch o := of.(type) {
	case raft.FailedHeartbeatObservation:
		if l.contact[string(o.PeerID)].Silent {
			return // each beat fails: that is no news
		}
		l.cfg.Log.Warn("a server does not answer", "server", string(o.PeerID), "since", o.LastContact)
		l.contact[string(o.PeerID)] = Contact{Silent: true, Since: o.LastContact}
	case raft.ResumedHeartbeatObservation:
		if l.contact[string(o.PeerID)].Silent {
			l.cfg.Log.Info("a server answers again", "server", string(o.PeerID))
		}
		l.contact[string(o.PeerID)] = Contact{Since: time.Now()}
	case raft.RaftState: // what it heard belongs to the term that is over
		l.contact, l.since = nil, time.Now()
	}
	l.heard.Notify()
}

// alone reports whether this server is the only voter there is: nobody's answer is to be waited for.
func (l *Log) alone(r *raft.Raft) bool {
	f := r.GetConfiguration()
	if err := f.Error(); err != nil {
		return false
	}
	var voters []raft.ServerID
	for _, s := range f.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			voters = append(voters, s.ID)
		}
	}
	return len(voters) == 1 && voters[0] == raft.ServerID(l.cfg.ID)
}

// stand has a server that is the only voter stand for leader at once. The time-outs of one that others can join are
// those of several servers, as the library does not change all of them while it runs: it would wait for the silence of
// a leader that nobody but itself can be.
func (c *checked) stand(ctx context.Context) {
	rpc := raft.RPC{
		Command:  &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}},
		RespChan: make(chan raft.RPCResponse, 1),
	}
	select {
	case c.sound <- rpc:
	case <-ctx.Done():
	}
}
