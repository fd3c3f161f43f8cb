package server

import (
	"context"
	"maps"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/wire"
)

// readyWait bounds how long a call waits for a leader.
const readyWait = 10 * time.Second

// Ready waits until this server leads, its state is up to date and its work has started.
func (s *Server) Ready(ctx context.Context) error {
	if ok, _ := s.leading(); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		changed := s.changed.C()
		ok, why := s.leading()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			if why == nil {
				why = ctx.Err()
			}
			return fault.WithHint(fault.Wrap(why, fault.Unavailable, "ask", "server "+s.cfg.Name),
				"it does not lead yet; try again")
		case <-changed:
		}
	}
}

// Leading reports whether this server's leader's work runs.
func (s *Server) Leading() bool {
	ok, _ := s.leading()
	return ok
}

// Confirm makes sure that this server still leads and has applied all that was committed before.
func (s *Server) Confirm(ctx context.Context) error {
	if err := s.log.VerifyLeader(ctx); err != nil {
		return err
	}
	return s.log.Barrier(ctx)
}

// Status describes the servers.
func (s *Server) Status() *wire.SystemStatusReply {
	snap := s.store.Snapshot()
	tags := maps.Clone(s.cfg.Tags)
	tags["id"] = s.cfg.Name // as the Raft configuration names it
	tags["bootstrap"] = "1"
	out := &wire.SystemStatusReply{
		Members: []wire.Member{{
			Name:   s.cfg.Name,
			Addr:   s.cfg.Addr,
			Port:   s.cfg.Port,
			Status: "alive",
			Tags:   tags,
		}},
		Index: max(1, snap.Index()),
	}
	if s.Leading() {
		out.Leader = hostPort(s.cfg.Addr, s.cfg.Port)
	}
	out.Stats = map[string]map[string]string{
		"raft":     s.log.Stats(),
		"commands": s.commandStats(),
		"nomad": { // clients of this API look for the servers' half by this name
			"server":        "true",
			"leader":        strconv.FormatBool(out.Leader != ""),
			"leader_addr":   out.Leader,
			"bootstrap":     "true",
			"known_regions": "1",
		},
	}
	return out
}

// commandStats tells what wrote the log since this server started.
func (s *Server) commandStats() map[string]string {
	out := map[string]string{}
	for name, n := range s.Commands() {
		out[name] = strconv.FormatUint(n, 10)
	}
	return out
}
