package api

import (
	"context"
	"net/http"
	"strconv"
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

// AutopilotConfiguration returns how the servers keep themselves.
func (a Operator) AutopilotConfiguration(ctx context.Context, o *QueryOptions) (*AutopilotConfiguration, error) {
	var out AutopilotConfiguration
	_, err := a.c.do(ctx, newCall(http.MethodGet, "operator", "autopilot", "configuration").read(o), &out)
	return &out, err
}

// SetAutopilotConfiguration says how the servers keep themselves, where nobody said something else since the one of
// ModifyIndex was read. It is false where somebody did: nothing has changed then.
func (a Operator) SetAutopilotConfiguration(ctx context.Context, c *AutopilotConfiguration) (bool, error) {
	var holds bool
	call := newCall(http.MethodPut, "operator", "autopilot", "configuration").
		set("cas", strconv.FormatUint(c.ModifyIndex, 10)).json(c)
	_, err := a.c.do(ctx, call, &holds)
	return holds, err
}

// AutopilotHealth returns how the servers are, also where they are not all well.
func (a Operator) AutopilotHealth(ctx context.Context) (*AutopilotHealth, error) {
	var out AutopilotHealth
	call := newCall(http.MethodGet, "operator", "autopilot", "health")
	call.also = http.StatusTooManyRequests
	_, err := a.c.do(ctx, call, &out)
	return &out, err
}
