package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
)

// termPause is how long the leader's work of a term rests after it failed.
const termPause = time.Second

// leaderLoop does the leader's work during each term in which this server leads. It ends by itself only with the
// refusal of a key that is not that of the state.
func (s *Server) leaderLoop(ctx context.Context, c *components) error {
	for ctx.Err() == nil {
		lead, changed := s.log.Leadership()
		if lead.Leading {
			if err := s.leadTerm(ctx, lead, c); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	return nil
}

// leadTerm leads until leadership is lost, or until a component fails: then it begins again after a pause. With a key
// that is not that of the state nothing is led, and nothing written: the error says so, and ends the server.
func (s *Server) leadTerm(ctx context.Context, term raftlog.Leadership, c *components) error {
	g, gctx := lifecycle.NewGroup(ctx)
	s.lead.open()
	g.Go("end of term", func() error {
		defer g.Stop()
		defer s.lead.stop()
		for {
			now, changed := s.log.Leadership()
			if now != term {
				return nil
			}
			select {
			case <-gctx.Done():
				return nil
			case <-changed:
			}
		}
	})
	raftTerm, err := s.log.Establish(gctx) // from here on the state is up to date
	if err == nil {
		if alone, why := s.unfit(gctx, c); why != nil {
			g.Stop()
			why = errors.Join(why, g.Wait())
			s.lead.close(why)
			if alone {
				return why
			}
			retry.Sleep(ctx, termPause) // another one leads, or is asked to once more
			return nil
		}
		err = s.establishLeadership(gctx)
	}
	if err == nil {
		err = c.keys.Begin(gctx) // before anything is sealed
	}
	if err == nil {
		c.lead(gctx, g)
		s.lead.begin(raftTerm)
	} else {
		g.Stop()
	}
	failed := errors.Join(err, g.Wait())
	s.lead.close(failed) // calls that wait for the next leader answer why there is none
	// What was under way when another one took over has an end that nobody here knows: that is no failure.
	if now, _ := s.log.Leadership(); now != term || raftlog.IsDeposed(failed) {
		s.cfg.Log.Debug("the leader's work has ended with its leadership", logkey.Error, failed)
		if now == term {
			retry.Sleep(ctx, termPause) // until that is known here, too
		}
		return nil
	}
	if failed != nil && ctx.Err() == nil {
		s.cfg.Log.Error("the leader's work failed; starting it again", logkey.Error, failed)
		retry.Sleep(ctx, termPause)
	}
	return nil
}

// unfit says why this server must not lead: it cannot open what is sealed in the state. Among several it then has
// another one lead; one that is alone ends.
func (s *Server) unfit(ctx context.Context, c *components) (alone bool, why error) {
	snap := s.store.Snapshot()
	fits, opens := c.keys.Keyring.Fits(snap), c.keys.Keyring.Opens(snap)
	if fits == nil && opens == nil {
		return false, nil
	}
	others, err := s.log.Yield(ctx)
	switch {
	case others:
		why = cmp.Or(opens, fits)
		s.cfg.Log.Error("this server cannot open the cluster's data keys, and has another one lead", logkey.Error,
			errors.Join(why, err))
		return false, why
	case err != nil:
		return false, err
	}
	return true, fits // what it does not open is refused one by one, as it is used
}

// establishLeadership gives a new cluster its identity and marks the beginning of the term.
func (s *Server) establishLeadership(ctx context.Context) error {
	var first []fsm.Command
	switch m := s.store.Snapshot().Meta(nil); {
	case m == nil:
		first = append(first, &fsm.Bootstrap{ClusterID: ids.New(), Incarnation: ids.New(), Schema: fsm.Schema()})
	case m.Schema < fsm.Schema() && s.alone(): // it is every server; of several all are asked first
		first = append(first, &fsm.SchemaRaise{To: fsm.Schema()})
	}
	for _, cmd := range append(first, &fsm.LineageMark{Mark: rand.Text()}) {
		if _, _, err := s.Propose(ctx, cmd); err != nil {
			return err
		}
	}
	return nil
}

// raiseSchema lets the newest commands be proposed.
func (s *Server) raiseSchema(ctx context.Context) error {
	_, _, err := s.Propose(ctx, &fsm.SchemaRaise{To: fsm.Schema()})
	return err
}

// alone reports whether no other server keeps the log.
func (s *Server) alone() bool {
	members, err := s.log.Members()
	return err == nil && len(members) == 1
}

// lead runs what works on the leader alone. A component that returns before its time has failed, and ends the others.
func (c *components) lead(ctx context.Context, g *lifecycle.Group) {
	c.dispatcher.Lead()
	for name, run := range map[string]func(context.Context) error{
		"heartbeats": c.heartbeats.Run,
		"keys":       c.keys.Run,
		"key ages":   c.keys.Age,
		"signing":    c.signing.Run,
		"authority":  c.authority.Run,
		"gc":         c.collector.Run,
		"scheduling": c.scheduling.Run,
		"health":     c.health.Run,
		"deploy":     c.deploy.Run,
		"claims":     c.claims.Run,
		"tokens":     c.inConsul.tokens.Run,
		"locks":      c.locks.Run,
		"launch":     c.launch.Run,
		"lost":       c.inConsul.lost.Run,
		"gateways":   c.inConsul.gateways.Run,
		"membership": c.membership.Run,
		"capacity":   c.membership.Capacity,
		"volumes":    c.volumes.Run,
	} {
		g.Go(name, func() error {
			err := run(ctx)
			if err == nil && ctx.Err() == nil {
				return fmt.Errorf("%s ended by itself", name)
			}
			return err
		})
	}
}
