package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
)

// Bounds of how long a server that is to stop looks for another one to lead: each is asked, and the best has to take
// over.
const (
	handoverAsk     = time.Second
	handoverTimeout = 3 * time.Second
)

// stopInOrder ends what the server does when ctx ends. If it leads, it has another one lead first, and serves until
// that is so: else the others would wait for its silence, and elect.
func (s *Server) stopInOrder(ctx, running context.Context, g *lifecycle.Group) error {
	defer g.Stop()
	select {
	case <-running.Done():
		return nil // it ends by itself
	case <-ctx.Done():
	}
	s.Stops()
	lead, _ := s.log.Leadership()
	voters, err := s.log.Voters()
	if err != nil || !lead.Leading || len(voters) < 2 {
		return nil
	}
	begun := time.Now()
	leader, err := s.handOver(running, voters)
	if err != nil {
		s.cfg.Log.Warn("this server stops while it leads, and the others elect one", logkey.Error, err)
		return nil
	}
	s.cfg.Log.Info("this server stops: another one leads", "server", leader, "took", time.Since(begun))
	return nil
}

// handOver has another server lead that answers, and returns which one does.
func (s *Server) handOver(ctx context.Context, voters []string) (leader string, err error) {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	to := s.successor(ctx, voters)
	if to == "" {
		return "", errNoSuccessor
	}
	if err := s.log.Transfer(ctx, to); err != nil {
		return "", err
	}
	for { // it does not lead any more, which says nothing of another one
		leader, changed := s.log.Leader()
		if leader != "" && leader != s.log.ID() {
			return leader, nil
		}
		select {
		case <-ctx.Done():
			return "", errNoSuccessor
		case <-changed:
		}
	}
}

var errNoSuccessor = errors.New("no other one answers and takes over")

// successor is the one that has most of the log among the others that answer; empty: none does.
func (s *Server) successor(ctx context.Context, voters []string) string {
	ctx, cancel := context.WithTimeout(ctx, handoverAsk)
	defer cancel()
	var mu sync.Mutex
	best, most := "", uint64(0)
	g, gctx := lifecycle.NewGroup(ctx)
	for _, name := range voters {
		if name == s.log.ID() {
			continue
		}
		g.Go("ask "+name, func() error {
			p, err := roster{s}.progressOf(gctx, name)
			if err != nil || p.Unready != "" {
				return nil // another one may
			}
			mu.Lock()
			defer mu.Unlock()
			if best == "" || p.Last > most {
				best, most = name, p.Last
			}
			return nil
		})
	}
	_ = g.Wait() // none of them fails
	return best
}
