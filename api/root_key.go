package api

import (
	"context"
	"net/http"
)

// RootKeyMeta describes a key that the servers seal secrets with.
type RootKeyMeta struct {
	KeyID       string
	Algorithm   string
	State       string // active, inactive or deprecated
	CreateTime  int64  // nanoseconds since the epoch
	PublishTime int64
	CreateIndex uint64
	ModifyIndex uint64
	// Sealed is how many entries are sealed with it, and Holders are who can open it: servers, and recovery keys that
	// people keep (Berth's own).
	Sealed  int      `json:",omitempty"`
	Holders []string `json:",omitempty"`
}

// RootKeys lists the keys that secrets are sealed with, the oldest first.
func (a Operator) RootKeys(ctx context.Context, o *QueryOptions) ([]*RootKeyMeta, *QueryMeta, error) {
	var out []*RootKeyMeta
	meta, err := a.c.do(ctx, newCall(http.MethodGet, "operator", "keyring", "keys").read(o), &out)
	return out, meta, err
}

// RotateRootKey makes a new key, with which is sealed from then on; full: and all that was sealed before.
func (a Operator) RotateRootKey(ctx context.Context, full bool) (*RootKeyMeta, error) {
	var out struct{ Key RootKeyMeta }
	call := newCall(http.MethodPut, "operator", "keyring", "rotate")
	if full {
		call.set("full", "true")
	}
	_, err := a.c.do(ctx, call, &out)
	return &out.Key, err
}

// RemoveRootKey forgets a key that nothing is sealed with any more.
func (a Operator) RemoveRootKey(ctx context.Context, id string) error {
	_, err := a.c.do(ctx, newCall(http.MethodDelete, "operator", "keyring", "key", id), nil)
	return err
}
