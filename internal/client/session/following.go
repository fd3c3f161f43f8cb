package session

import (
	"context"

	"berth/internal/client/allocs"
	"berth/internal/model/lineage"
	"berth/internal/wire"
)

// follow acts on how the node stands to the state that it was registered in.
func (s *Session) follow(req *wire.NodeRegisterRequest, reply *wire.NodeRegisterReply) {
	incarnation := reply.Incarnation
	s.mu.Lock()
	was := s.foreign
	stands := Stand(s.seen, req.Holds, incarnation, reply.Parents)
	s.foreign = stands == Keeps
	if stands == FollowsAnew {
		s.seen = lineage.Point{}
	}
	now, before := s.foreign, req.Seen.Incarnation
	s.mu.Unlock()
	switch {
	case now && !was:
		s.log.Warn("the servers' state is another than the one whose tasks and volumes this node holds: they are "+
			"kept, "+
			"and nothing new is taken until they have ended (see: berth node orphans list)", "held", before, "servers",
			incarnation)
		s.allocs.KeepAll(allocs.ForeignReason)
	case was && !now:
		s.log.Info("this node follows its servers: nothing of another cluster state is left on it, or a "+
			"person said that theirs goes on from that", "servers", incarnation)
		s.gate.Set(false)
	case stands == FollowsAnew:
		s.log.Warn("the servers' state is of another incarnation; this node holds nothing and follows it", "before",
			before, "now", incarnation)
	}
	if now {
		s.gate.Set(true) // each registration with another state has closed it, and no set opens it again
	}
	if now != was {
		s.marked.Notify()
	}
}

// watchOrphans lets a node that holds nothing of another cluster state any more follow its servers.
func (s *Session) watchOrphans(ctx context.Context) error {
	for {
		changed := s.allocs.Changed()
		if s.isForeign() && !s.allocs.Any() {
			s.due.ask()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// awaitFollowed waits while the node follows no servers.
func (s *Session) awaitFollowed(ctx context.Context) bool {
	for {
		changed := s.marked.C()
		if !s.isForeign() {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// restart begins a new stream of allocs.
func (s *Session) restart() {
	s.mu.Lock()
	end := s.endStream
	s.mu.Unlock()
	if end != nil {
		end()
	}
}
