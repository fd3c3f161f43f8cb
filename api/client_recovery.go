package api

import (
	"context"
	"io"
	"net/http"
)

// Operator are the endpoints by which people take care of the servers' state.
type Operator struct{ c *Client }

// Operator returns the endpoints by which people take care of the servers' state.
func (c *Client) Operator() Operator { return Operator{c} }

// Recovery returns what the servers wait for before they trust their state.
func (a Operator) Recovery(ctx context.Context, o *QueryOptions) (*RecoveryStatus, *QueryMeta, error) {
	return get[RecoveryStatus](ctx, a.c, o, "operator", "recovery")
}

// BeginRecovery says that the servers' state is older than the world.
func (a Operator) BeginRecovery(ctx context.Context, reason string) error {
	return a.say(ctx, "begin", &RecoveryRequest{Reason: reason})
}

// FinishRecovery says that no node is missing among those that the recovery names.
func (a Operator) FinishRecovery(ctx context.Context, reason string) error {
	return a.say(ctx, "finish", &RecoveryRequest{Reason: reason})
}

// DismissNode says that a node is dead, so that no recovery waits for it, or that what it has seen is wrong.
func (a Operator) DismissNode(ctx context.Context, node, reason string) error {
	return a.say(ctx, "dismiss", &RecoveryRequest{NodeID: node, Reason: reason})
}

func (a Operator) say(ctx context.Context, verb string, req *RecoveryRequest) error {
	_, err := a.c.do(ctx, newCall(http.MethodPut, "operator", "recovery", verb).json(req), nil)
	return err
}

// SaveSnapshot returns the servers' state as a file, which the caller closes, with its digest: "sha-256=" and the
// checksum in base64.
func (a Operator) SaveSnapshot(ctx context.Context) (file io.ReadCloser, digest string, err error) {
	resp, err := a.c.send(ctx, newCall(http.MethodGet, "operator", "snapshot"))
	if err != nil {
		return nil, "", err
	}
	return resp.Body, resp.Header.Get("Digest"), nil
}

// RecoveryKeyHeader is the header by which a restore brings a recovery key.
const RecoveryKeyHeader = "X-Berth-Recovery-Key"

// RestoreSnapshot replaces the servers' state by a saved one, which begins a recovery.
func (a Operator) RestoreSnapshot(ctx context.Context, file io.Reader) error {
	return a.RestoreSnapshotWith(ctx, file, "")
}

// RestoreSnapshotWith is RestoreSnapshot of a state whose secrets the present servers cannot open, but a recovery key
// can: its private part in base64.
func (a Operator) RestoreSnapshotWith(ctx context.Context, file io.Reader, recovery Credential) error {
	call := newCall(http.MethodPut, "operator", "snapshot")
	if recovery != "" {
		call.header.Set(RecoveryKeyHeader, recovery.Reveal())
	}
	call.body = file
	call.header.Set("Content-Type", "application/octet-stream")
	resp, err := a.c.send(ctx, call)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// NodeStore returns a copy of what the node of the agent that is asked remembers, which the caller closes; an addition
// of Berth. A copy that was cut off ends with io.ErrUnexpectedEOF.
func (a Operator) NodeStore(ctx context.Context) (io.ReadCloser, error) {
	resp, err := a.c.send(ctx, newCall(http.MethodGet, "operator", "node-store"))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
