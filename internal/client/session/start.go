package session

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/client/servers"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// refusedPause is how long an agent rests that the servers do not accept: only a person changes that.
var refusedPause = retry.Backoff{Min: 40 * time.Second, Max: 40 * time.Second}

// pause rests after so many failures in a row; false: ctx ended.
func pause(ctx context.Context, failures int, err error) bool {
	if fault.Has(err, fault.Conflict) {
		return refusedPause.Sleep(ctx, failures)
	}
	return servers.Pause.Sleep(ctx, failures)
}

// start returns what the servers are to know of this agent start. Its epoch is on disk before anybody hears of it.
func (s *Session) start(info *node.Node) (*wire.AgentStart, error) {
	if len(s.own.chain.Tried) == 0 {
		chain, err := s.store.BeginSession()
		if err != nil {
			return nil, fault.Note(err, "record", "the start of this agent")
		}
		s.own.chain = chain
	}
	out := &wire.AgentStart{Registration: s.own.begun, At: s.own.chain.At}
	out.Previous, out.Next = s.own.chain.Start()
	out.Address = info.Name + " (" + info.Address + ")"
	return out, nil
}

// accepted notes on disk, and then on the link, that the servers obey this agent start.
func (s *Session) accepted(start *wire.AgentStart, reply *wire.NodeRegisterReply) error {
	if reply.Session == "" { // servers of an older Berth
		s.link.Accepted("", 0)
		return nil
	}
	if s.own.chain.Accepted != start.Next || s.own.chain.At.Incarnation != reply.At.Incarnation {
		if err := s.store.AcceptSession(start.Next, reply.At); err != nil {
			return fault.Note(err, "record", "the start of this agent")
		}
		s.own.chain = s.own.chain.Answered(reply.At)
	}
	s.link.Accepted(start.Next, reply.Silence)
	return nil
}

// leaveTimeout bounds how long an agent that ends waits for its servers.
const leaveTimeout = time.Second

// leave tells the servers, when the agent ends while the node holds nothing, that nothing of this boot is left. That it
// is not heard costs the next boot a wait.
func (s *Session) leave(ctx context.Context) {
	id := s.link.Identity()
	s.mu.Lock()
	forGood := s.pulse.ends
	s.mu.Unlock()
	if forGood && s.allocs.Any() {
		s.log.Warn("this node does not leave: what it holds runs on, and its next start finds it again", "hint",
			"stop the jobs on it first: berth node eligibility -disable NODE, berth alloc stop ALLOC")
	}
	if id.Session == "" || s.link.Refusal() != nil || s.allocs.Any() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if _, err := wire.NodeLeave.Call(ctx, s.link.Conn(), &wire.NodeLeaveRequest{
		NodeIdentity: id,
		ForGood:      forGood,
	}); err != nil {
		s.log.Debug("the servers did not hear that this agent ends", logkey.Error, err)
		return
	}
	if forGood {
		s.log.Info("this node has left: its servers do not wait for it", logkey.Node, id.Node)
	}
}

// Leaves has the servers not wait for the node once the agent has ended, if it holds nothing then.
func (s *Session) Leaves() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulse.ends = true
}
