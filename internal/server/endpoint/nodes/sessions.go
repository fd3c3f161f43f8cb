package nodes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/departure"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/fsm/sessions"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// inFlight is how long calls of an agent that was killed and started again may still be on their way.
const inFlight = 5 * time.Second

// begun remembers when this server accepted the sessions of nodes, by its own clock.
type begun struct {
	mu sync.Mutex
	at map[ids.Node]time.Time
}

func (b *begun) now(id ids.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == nil {
		b.at = map[ids.Node]time.Time{}
	}
	b.at[id] = time.Now()
}

func (b *begun) justNow(id ids.Node) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.at[id]
	return ok && time.Since(at) < inFlight
}

// Obeyed makes sure that a call comes from the node that it names, and from the agent start of it that is obeyed. The
// watch sees when another one is.
func Obeyed(s *state.Snap, w *state.Watch, id wire.NodeIdentity) (*node.Node, error) {
	n, err := Authenticate(s, id)
	if err != nil {
		return nil, err
	}
	if err := joining.Denied(s, w, id.Node); err != nil {
		return nil, err
	}
	return n, sessions.Check(s, w, id)
}

// obeyed checks who calls. An agent that acts in a superseded session is a second one under the node's identity.
func (e *Endpoints) obeyed(ctx context.Context, id wire.NodeIdentity) (*state.Snap, *node.Node, error) {
	s := e.cfg.Store.Snapshot()
	n, err := Obeyed(s, nil, id)
	if wire.SessionRefused(err) {
		e.seen(ctx, s, id.Node, id.Session, "")
	}
	return s, n, err
}

// seen notes that an agent of a superseded session acts, unless its call may have been on its way when the session
// ended.
func (e *Endpoints) seen(ctx context.Context, s *state.Snap, id ids.Node, epoch, address string) {
	now := s.Session(nil, id)
	if now == nil || now.Duplicated != nil || !slices.Contains(now.Superseded, epoch) || e.begun.justNow(id) {
		return
	}
	first, _, err := fsm.Propose[bool](ctx, e.cfg.Proposer, &sessions.Seen{Node: id, Session: epoch, Address: address})
	switch {
	case err != nil:
		e.cfg.Log.Error("two agents act as one node, and that cannot be recorded", logkey.Node, id, logkey.Error, err)
	case first:
		e.cfg.Log.Warn("two agents act as one node: an agent was seen whose session was superseded; until a person "+
			"has chosen, no claim of the node ends by its word",
			logkey.Node, id, "obeyed", now.Address, "other", address)
	}
}

// register takes a registration over, and reports whether it begins a session.
func (e *Endpoints) register(ctx context.Context, s *state.Snap, req *wire.NodeRegisterRequest) (uint64, error) {
	cmd := fsm.NodeRegister{Node: req.Info, Seed: ids.New()}
	if !e.hasSessions(s) {
		return e.propose(ctx, &cmd)
	}
	if req.Start == nil {
		if now := s.Session(nil, req.Node); now != nil {
			return 0, wire.RefuseSession(req.Node, "an agent of a newer Berth has registered it, at "+now.Address,
				"run that version, or a newer one")
		}
		return e.propose(ctx, &cmd)
	}
	start := *req.Start
	start.InProcess = start.InProcess && wire.InProcess(ctx) // what comes over a network is not believed
	_, rest := e.cfg.Heartbeats.Silence(req.Node)
	readmit := readmission(req)
	admission, err := sessions.Admit(s, req.Node, start, rest == 0, readmit, time.Now())
	if now := s.Session(nil, req.Node); err != nil && now != nil {
		e.refused.note(start, now, admission)
	}
	switch {
	case admission == node.AdmitSuperseded:
		e.seen(ctx, s, req.Node, start.Next, start.Address)
		return 0, err
	case admission == node.AdmitWaits:
		return 0, fault.Note(err, "register", fmt.Sprintf("node %q, for %s", req.Node, rest.Round(time.Second)))
	case err != nil:
		return 0, err
	}
	index, err := e.propose(ctx, &sessions.Register{Node: cmd, Start: start, Silent: rest == 0, Readmit: readmit})
	if err == nil && admission != node.AdmitRepeats {
		e.begun.now(req.Node)
		e.refused.forget(req.Node)
		if admission == node.AdmitFollows { // else its stream may be of this very session, which the state forgot
			e.cfg.Controllers.Drop(req.Node)
		}
		e.cfg.Log.Debug("a session of a node begins", logkey.Node, req.Node, "how", admission)
	}
	return index, err
}

// hasSessions reports whether every server of the cluster understands sessions.
func (e *Endpoints) hasSessions(s *state.Snap) bool {
	m := s.Meta(nil)
	return m != nil && m.Schema >= sessions.Schema
}

func (e *Endpoints) propose(ctx context.Context, cmd fsm.Command) (uint64, error) {
	done, index, err := fsm.Propose[*fsm.NodeChanged](ctx, e.cfg.Proposer, cmd)
	if err == nil && len(done.Evals) > 0 {
		e.cfg.Log.Debug("node changed", "evals", len(done.Evals))
	}
	return index, err
}

func (e *Endpoints) nodeLeave(ctx context.Context, req *wire.NodeLeaveRequest) (*wire.Empty, error) {
	if _, _, err := e.obeyed(ctx, req.NodeIdentity); err != nil {
		return nil, err
	}
	var cmd fsm.Command = &sessions.Leave{Node: req.Node, Session: req.Session}
	if req.ForGood && e.cfg.Store.Snapshot().Understands(departure.Schema) {
		cmd = &departure.Goodbye{Node: req.Node, Session: req.Session}
	}
	_, _, err := e.cfg.Proposer.Propose(ctx, cmd)
	return &wire.Empty{}, err
}

// rebootConfirm takes a person's word that nothing of a node runs but its accepted session; of one that is silent, that
// it runs no more either. That it is meant is recorded with the node and logged.
func (e *Endpoints) rebootConfirm(
	ctx context.Context, req *wire.RebootConfirmRequest,
) (*wire.RebootConfirmReply, error) {
	subject := fmt.Sprintf("node %q", req.Node)
	if req.Reason == "" {
		return nil, fault.New(fault.Invalid, "confirm the reboot of", subject, "a reason is missing")
	}
	s := e.cfg.Store.Snapshot()
	if s.Node(nil, req.Node) == nil {
		return nil, fault.New(fault.NotFound, "confirm the reboot of", subject, "node not found")
	}
	now := s.Session(nil, req.Node)
	if now == nil {
		return nil, fault.New(fault.Conflict, "confirm the reboot of", subject, "no session of it is known: there is "+
			"nothing to confirm")
	}
	lasts, rest := e.cfg.Heartbeats.Silence(req.Node)
	if rest > 0 && now.Doubted() == "" {
		return nil, fault.WithHint(fault.New(fault.Conflict, "confirm the reboot of", subject,
			fmt.Sprintf("nothing is in doubt, and its agent at %s was heard %s ago", now.Address,
				lasts.Round(time.Second))),
			"if another agent is to take its place, stop this one first")
	}
	_, index, err := e.cfg.Proposer.Propose(ctx, &sessions.Confirm{
		Node:   req.Node,
		By:     req.By,
		Reason: req.Reason,
		Open:   rest == 0,
	})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person vouches that nothing else of a node runs than its accepted session", logkey.Node, req.Node,
		"reason", req.Reason, "by", req.By, "doubt", now.Doubted(), "next_registration_accepted", rest == 0)
	return &wire.RebootConfirmReply{Index: index, Resolved: now.Doubted(), Open: rest == 0}, nil
}
