package api

import (
	"context"
	"net/http"
)

// RaftConfiguration returns the servers that keep the log.
func (a Operator) RaftConfiguration(ctx context.Context, o *QueryOptions) (*RaftConfiguration, error) {
	var out RaftConfiguration
	_, err := a.c.do(ctx, newCall(http.MethodGet, "operator", "raft", "configuration").read(o), &out)
	return &out, err
}

// RemovePeer takes a server out of the cluster, for good.
func (a Operator) RemovePeer(ctx context.Context, id string) error {
	_, err := a.c.do(ctx, newCall(http.MethodDelete, "operator", "raft", "peer").set("id", id), nil)
	return err
}

// RemovePeerAt is RemovePeer by the server's address, as the configuration of the log shows it.
func (a Operator) RemovePeerAt(ctx context.Context, addr string) error {
	_, err := a.c.do(ctx, newCall(http.MethodDelete, "operator", "raft", "peer").set("address", addr), nil)
	return err
}

// TransferLeadership has another server lead: the one of the id, or any if it is empty.
func (a Operator) TransferLeadership(ctx context.Context, id string) error {
	call := newCall(http.MethodPut, "operator", "raft", "transfer-leadership")
	if id != "" {
		call = call.set("id", id)
	}
	_, err := a.c.do(ctx, call, nil)
	return err
}

// AutopilotHealth returns how the servers are.
func (a Operator) AutopilotHealth(ctx context.Context) (*AutopilotHealth, error) {
	var out AutopilotHealth
	_, err := a.c.do(ctx, newCall(http.MethodGet, "operator", "autopilot", "health"), &out)
	return &out, err
}
