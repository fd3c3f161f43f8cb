package server

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/wire"
)

// How long a call waits.
const (
	// leaderWait is for a leader: an election takes less.
	leaderWait = 5 * time.Second
	// readyWait is for this server where it is on the way itself: it reads its log, or begins its term.
	readyWait = 10 * time.Second
)

// Ready waits until calls are answered: this server leads, its state is up to date and its work has started; or another
// one leads, and is reached.
func (s *Server) Ready(ctx context.Context) error {
	_, err := s.Route(ctx, false)
	return err
}

// Route implements serving.Cluster. A call that another server passed on is passed on no further: servers that disagree
// about who leads would send it round.
func (s *Server) Route(ctx context.Context, relayed bool) (wire.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	patience := time.NewTimer(leaderWait)
	defer patience.Stop()
	for late := false; ; {
		changed := s.lead.changed.C()
		if _, leads := s.lead.now(); leads {
			return nil, nil
		}
		_, why := s.lead.ended()
		if s.cfg.Own != nil && !s.cfg.begins() && !s.cfg.Own.Joined() {
			why = fault.New(fault.Unavailable, "ask", "the cluster",
				"this server has not joined it yet: its log says why")
		}
		leader, known := s.log.Leader()
		switch leader {
		case "", s.log.ID(): // it is being elected, or begins its term
		default:
			if relayed {
				return nil, wire.NotLeading(s.cfg.Name)
			}
			conn, err := s.others.conn(ctx, leader, known)
			if err == nil {
				return wire.Through(conn, s.log.ID(), leader), nil
			}
			why = err
		}
		if ctx.Err() != nil || late && !s.begins(leader) {
			return nil, s.leaderless(ctx, why)
		}
		select {
		case <-ctx.Done():
		case <-patience.C:
			late = true
		case <-changed:
		case <-known:
		}
	}
}

// begins reports whether this server is to answer itself as soon as it has read its log, or begun its term.
func (s *Server) begins(leader string) bool {
	_, err := s.log.Progress()
	return err != nil || leader == s.log.ID()
}

// leaderless is why no server answers.
func (s *Server) leaderless(ctx context.Context, why error) error {
	if none := s.missed.Why(); none != nil && why == nil {
		return none
	}
	return fault.WithHint(fault.Wrap(cmp.Or(why, ctx.Err(), errNoLeader), fault.Unavailable, "ask",
		"server "+s.cfg.Name), "no server leads that it can reach; try again")
}

var errNoLeader = errors.New("it knows of no leader")

// To is the way to another server.
func (s *Server) To(server string) (wire.Conn, error) {
	c, err := s.others.dialled(server)
	if err != nil {
		return nil, err
	}
	return wire.Through(c, s.log.ID(), server), nil
}

// Leading reports whether this server's leader's work runs.
func (s *Server) Leading() bool {
	_, leads := s.lead.now()
	return leads
}

// Confirm makes sure that this server still leads: what it has applied was the newest state when Confirm was called.
func (s *Server) Confirm(ctx context.Context) error {
	term, leads := s.lead.now()
	if !leads {
		return wire.NotLeading(s.cfg.Name)
	}
	if err := s.log.Confirm(ctx, term); err != nil {
		return err
	}
	if now, leads := s.lead.now(); !leads || now != term {
		return wire.NotLeading(s.cfg.Name)
	}
	return nil
}

// Contact implements serving.Cluster.
func (s *Server) Contact() (age time.Duration, known bool) {
	if s.Leading() {
		return 0, true
	}
	return s.log.Contact()
}

// Term implements serving.Cluster.
func (s *Server) Term(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.lead.while(ctx, wire.NotLeading(s.cfg.Name))
}

// Heard implements serving.Cluster.
func (s *Server) Heard(node ids.Node, from string) { s.nodes.heard(node, from) }

// Status describes this server, and says where the one is that leads.
func (s *Server) Status() *wire.SystemStatusReply {
	snap := s.store.Snapshot()
	tags := map[string]string{}
	maps.Copy(tags, s.cfg.Tags)
	tags["id"] = s.cfg.Name // as the Raft configuration names it
	if s.cfg.Own == nil || s.cfg.Own.Founder() {
		tags["bootstrap"] = "1"
	}
	addr, port := s.where()
	out := &wire.SystemStatusReply{
		Members: []wire.Member{{
			Name:   s.cfg.Name,
			Addr:   addr,
			Port:   port,
			Status: "alive",
			Tags:   tags,
		}},
		Index: max(1, snap.Index()),
	}
	leads := s.Leading()
	if leads {
		out.Leader = hostPort(addr, port)
	} else if leader, _ := s.log.Leader(); leader != "" && leader != s.log.ID() {
		out.Leader = s.addressOf(leader)
	}
	if err := s.missed.Why(); err != nil {
		out.Leaderless = err.Error()
	}
	out.Stats = map[string]map[string]string{
		"raft":     s.log.Stats(),
		"commands": s.commandStats(),
		"nomad": { // clients of this API look for the servers' half by this name
			"server":        "true",
			"leader":        strconv.FormatBool(leads),
			"leader_addr":   out.Leader,
			"bootstrap":     strconv.FormatBool(tags["bootstrap"] == "1"),
			"known_regions": "1",
		},
	}
	return out
}

// where is where people see this server: where others reach it, or its API.
func (s *Server) where() (addr string, port uint16) {
	host, text, err := net.SplitHostPort(s.cfg.Address)
	if err != nil {
		return s.cfg.Addr, s.cfg.Port
	}
	n, _ := strconv.ParseUint(text, 10, 16) // it was checked where it was read
	return host, uint16(n)
}

// addressOf is where another server is found; empty: it is not known.
func (s *Server) addressOf(server string) string {
	if s.cfg.Own != nil {
		for _, o := range s.cfg.Own.Servers() {
			if o.Name == server {
				return o.Address
			}
		}
	}
	return ""
}

// commandStats tells what wrote the log since this server started.
func (s *Server) commandStats() map[string]string {
	out := map[string]string{}
	for name, n := range s.Commands() {
		out[name] = strconv.FormatUint(n, 10)
	}
	return out
}
