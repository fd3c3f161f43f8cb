package nodes

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/model/node"
	"berth/internal/server/fsm/sessions"
	"berth/internal/wire"
)

// How long a readmission can be used: long enough to walk to the machine, and not to be found in a drawer.
const (
	readmitTTL    = time.Hour
	maxReadmitTTL = 24 * time.Hour
)

// readmission is the hash of the token that a registration shows; empty: it shows none.
func readmission(req *wire.NodeRegisterRequest) string {
	token := req.Readmit.Values[wire.ReadmitToken]
	if token == "" {
		return ""
	}
	return HashSecret(token)
}

// readmit makes the token by which one agent start that has lost its store takes up a node's identity. The state has
// its hash alone. It is for a node that nobody is: of one that is heard, the agent that has its store would be put
// aside.
func (e *Endpoints) readmit(ctx context.Context, req *wire.ReadmitRequest) (*wire.ReadmitReply, error) {
	subject := fmt.Sprintf("node %q", req.Node)
	ttl := cmp.Or(req.TTL, readmitTTL)
	switch {
	case strings.TrimSpace(req.Reason) == "":
		return nil, fault.New(fault.Invalid, "readmit", subject, "a reason is missing")
	case ttl < 0 || ttl > maxReadmitTTL:
		return nil, fault.New(fault.Invalid, "readmit", subject,
			fmt.Sprintf("a token can be used for at most %s", maxReadmitTTL))
	}
	s := e.cfg.Store.Snapshot()
	now := s.Session(nil, req.Node)
	switch {
	case s.Node(nil, req.Node) == nil && s.Departure(req.Node) == nil:
		return nil, fault.New(fault.NotFound, "readmit", subject, "node not found")
	case now == nil:
		return nil, fault.New(fault.Conflict, "readmit", subject,
			"no session of it is known in this state of the servers: it registers without a token")
	}
	if lasts, rest := e.cfg.Heartbeats.Silence(req.Node); rest > 0 {
		return nil, fault.WithHint(fault.New(fault.Conflict, "readmit", subject,
			fmt.Sprintf("its agent at %s may still run: nothing was heard of it for %s only", now.Address,
				lasts.Round(time.Second))),
			fmt.Sprintf("if it is stopped, ask again in %s", max(rest.Round(time.Second), time.Second)))
	}
	token, expires := string(req.Node)+"."+rand.Text(), time.Now().Add(ttl)
	_, index, err := e.cfg.Proposer.Propose(ctx, &sessions.Readmit{Node: req.Node, Readmission: node.Readmission{
		TokenHash: HashSecret(token),
		By:        req.By,
		Reason:    req.Reason,
		Expires:   expires,
	}})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person lets an agent without its store take up a node", logkey.Node, req.Node, "reason",
		req.Reason, "by", req.By, "until", expires)
	return &wire.ReadmitReply{
		Index:   index,
		Token:   wire.Secrets{Values: map[string]string{wire.ReadmitToken: token}},
		Expires: expires,
	}, nil
}
