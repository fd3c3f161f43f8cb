package api

import (
	"context"
	"net/http"
	"time"
)

// The roles that a join token lets somebody in with.
const (
	JoinAsNode   = "node"
	JoinAsServer = "server"
)

// JoinTokenRequest asks for a join token (Berth's own, like all that follows).
type JoinTokenRequest struct {
	Role string // JoinAsNode or JoinAsServer
	// NodePool is the one pool in which nodes that join with it may be; empty: they name their pool themselves.
	NodePool string        `json:",omitempty"`
	Uses     int           // how many may join with it: 1 to 1,000
	TTL      time.Duration // how long it is good: 30 days at most
}

// JoinToken lets nodes into the cluster.
type JoinToken struct {
	ID       string
	Role     string
	NodePool string `json:",omitempty"`
	Uses     int    // left
	Expires  time.Time
	Created  time.Time
	By       string
	// Joined are who came in by it, in lists: the count of its uses, and whose they were.
	Joined []*JoinedMember `json:",omitempty"`
	// Token is what is shown to join. It is in the answer to the request that made it, and nowhere else.
	Token string `json:",omitempty"`
}

// JoinedMember is a node or a server that came in by a join token.
type JoinedMember struct {
	ID     string // of the node, or the name of the server
	Time   time.Time
	Denied bool // it is let in no more
}

// CreateJoinToken makes a join token.
func (a Operator) CreateJoinToken(ctx context.Context, req *JoinTokenRequest) (*JoinToken, error) {
	var out JoinToken
	_, err := a.c.do(ctx, newCall(http.MethodPut, "operator", "join-token").json(req), &out)
	return &out, err
}

// JoinTokens lists the join tokens that have not expired, or were used up, the oldest first.
func (a Operator) JoinTokens(ctx context.Context, o *QueryOptions) ([]*JoinToken, *QueryMeta, error) {
	var out []*JoinToken
	meta, err := a.c.do(ctx, newCall(http.MethodGet, "operator", "join-tokens").read(o), &out)
	return out, meta, err
}

// RevokeJoinToken takes a join token back: nobody joins with it any more. Who has joined stays.
func (a Operator) RevokeJoinToken(ctx context.Context, id string) error {
	_, err := a.c.do(ctx, newCall(http.MethodDelete, "operator", "join-token", id), nil)
	return err
}
