package acls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/model/workload"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/acls"
	"berth/internal/server/rights"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// view is what people see of a token.
func view(s *state.Snap, w *state.Watch, t *acl.Token) *wire.ACLTokenView {
	shown := *t
	shown.SecretHash = nil
	out := &wire.ACLTokenView{Token: &shown}
	for _, id := range t.Roles {
		if r := s.ACLRole(w, id); r != nil {
			if out.Roles == nil {
				out.Roles = map[string]string{}
			}
			out.Roles[id] = r.Name
		}
	}
	return out
}

// indexOf is the index of a read of one token, nil for none: it grows with what its roles are called.
func indexOf(s *state.Snap, t *acl.Token) uint64 {
	switch {
	case t == nil:
		return s.ReadIndex(state.ACLTokens)
	case len(t.Roles) > 0:
		return max(s.ReadIndex(state.ACLTokens, t.ModifyIndex), s.TableIndex(state.ACLRoles))
	}
	return s.ReadIndex(state.ACLTokens, t.ModifyIndex)
}

func (e *Endpoints) tokenList(
	ctx context.Context, req *wire.ACLTokenListRequest,
) (*wire.List[*wire.ACLTokenView], error) {
	out := &wire.List[*wire.ACLTokenView]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		var list []*acl.Token
		for t := range s.ACLTokens(w, serving.UUIDPrefix(req.Prefix)) {
			if t.Global || !req.Global {
				list = append(list, t)
			}
		}
		list, out.NextToken = wire.Cut(req.Page, list, func(t *acl.Token) string { return t.Accessor })
		out.Items = nil
		for _, t := range list {
			out.Items = append(out.Items, view(s, w, t))
		}
		return max(s.TableIndex(state.ACLTokens), s.TableIndex(state.ACLRoles)), nil
	})
}

func (e *Endpoints) tokenGet(ctx context.Context, req *wire.Ref[string]) (*wire.One[wire.ACLTokenView], error) {
	out := &wire.One[wire.ACLTokenView]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		t := s.ACLToken(w, req.ID)
		out.Item = nil
		if t != nil {
			out.Item = view(s, w, t)
		}
		return indexOf(s, t), nil
	})
}

// tokenSelf shows whoever has a secret the token that it is of.
func (e *Endpoints) tokenSelf(
	ctx context.Context, req *wire.ACLSelfRequest,
) (*wire.One[wire.ACLTokenView], error) {
	out := &wire.One[wire.ACLTokenView]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		if secret := req.Secret.Secret(); workload.Is(secret) {
			of, err := rights.WorkloadOf(s, w, secret, time.Now())
			if err != nil {
				return 0, err
			}
			out.Item = ofWorkload(of)
			return max(s.ReadIndex(state.ACLTokens, of.Alloc.CreateIndex), s.TableIndex(state.ACLPolicies)), nil
		}
		t, err := rights.TokenOf(s, w, req.Secret.Secret(), time.Now())
		if err != nil {
			return 0, err
		}
		out.Item = view(s, w, t)
		return indexOf(s, t), nil
	})
}

// ofWorkload is what a task that shows its identity sees of it, in the form of a token. There is none of that accessor.
func ofWorkload(w *rights.Workload) *wire.ACLTokenView {
	t := &acl.Token{
		Accessor:    w.Claims.ID,
		Name:        w.String(),
		Type:        acl.ClientToken,
		Policies:    w.Names(),
		Created:     w.Claims.IssuedAt.Time(),
		CreateIndex: w.Alloc.CreateIndex,
		ModifyIndex: w.Alloc.CreateIndex,
	}
	if w.Claims.Expiry != nil {
		t.Expires = w.Claims.Expiry.Time()
	}
	return &wire.ACLTokenView{Token: t}
}

// tokenPut writes a token. The servers keep the hash of its secret alone: the secret stands in this answer alone.
func (e *Endpoints) tokenPut(ctx context.Context, req *wire.ACLTokenPutRequest) (*wire.ACLTokenReply, error) {
	roles, err := e.rolesOf(req)
	if err != nil {
		return nil, err
	}
	cmd := &acls.TokenPut{
		Accessor: req.Accessor,
		Name:     req.Name,
		Type:     req.Type,
		Policies: req.Policies,
		Roles:    roles,
		Global:   req.Global,
		Lives:    req.Lives,
		Expires:  req.Expires,
		Shortest: e.cfg.Lifetime.Min,
		Longest:  e.cfg.Lifetime.Max,
	}
	secret, err := e.secretOf(req, cmd)
	if err != nil {
		return nil, err
	}
	t, index, err := fsm.Propose[*acl.Token](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("an ACL token was written", "accessor", t.Accessor, "name", t.Name, "type", t.Type, "new", cmd.New,
		"expires", t.Expires, "by", req.By)
	return e.written(t, index, secret), nil
}

// secretOf says which secret a token has, and whether it is a new one: one without an accessor, or one whose accessor
// and secret were made elsewhere. Who may do everything has a secret that the servers made.
func (e *Endpoints) secretOf(req *wire.ACLTokenPutRequest, cmd *acls.TokenPut) (redact.Secret, error) {
	secret := req.Secret.Secret()
	switch {
	case req.Accessor == "" && !secret.Empty():
		return secret, fault.WithHint(
			fault.New(fault.Invalid, "make", acls.AToken, "it has a SecretID and no AccessorID"),
			"leave SecretID out: the servers make one")
	case req.Accessor == "":
		cmd.New = true
		cmd.Accessor = ids.New()
		secret = redact.New(ids.New())
	case secret.Empty():
		return secret, nil
	case e.cfg.Store.Snapshot().ACLToken(nil, req.Accessor) == nil:
		cmd.New = true
		if req.Type != acl.ClientToken || !ids.IsUUID(req.Accessor) || !ids.IsUUID(secret.Reveal()) {
			return secret, fault.WithHint(
				fault.New(fault.Invalid, "make", acls.AToken,
					"only a client token may have an accessor and a secret that were made elsewhere, and both are UUIDs"),
				"leave AccessorID and SecretID out: the servers make them")
		}
	}
	cmd.SecretHash = acl.HashSecret(secret)
	return secret, nil
}

func (e *Endpoints) written(t *acl.Token, index uint64, secret redact.Secret) *wire.ACLTokenReply {
	out := &wire.ACLTokenReply{Index: index, Token: view(e.cfg.Store.Snapshot(), nil, t)}
	if !secret.Empty() {
		out.Secret = wire.SealSecret(secret)
	}
	return out
}

// rolesOf are the ids of a token's roles, which may be named otherwise.
func (e *Endpoints) rolesOf(req *wire.ACLTokenPutRequest) ([]string, error) {
	out := append([]string(nil), req.Roles...)
	s := e.cfg.Store.Snapshot()
	for _, name := range req.RoleNames {
		r := s.ACLRoleNamed(nil, name)
		if r == nil {
			return nil, fault.WithHint(
				fault.New(fault.Invalid, "write", fmt.Sprintf("%s %q", acls.AToken, req.Name),
					fmt.Sprintf("there is no role named %q", name)),
				"make the role first, or leave it out")
		}
		out = append(out, r.ID)
	}
	return out, nil
}

func (e *Endpoints) tokenDelete(ctx context.Context, req *wire.ACLDeleteRequest) (*wire.Written, error) {
	_, index, err := e.cfg.Proposer.Propose(ctx, &acls.TokenDelete{Accessor: req.ID})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("an ACL token was deleted", "accessor", req.ID, "by", req.By)
	return &wire.Written{Index: index}, nil
}

// bootstrap makes the first token of all, which may do everything.
func (e *Endpoints) bootstrap(ctx context.Context, req *wire.ACLBootstrapRequest) (*wire.ACLTokenReply, error) {
	secret := req.Secret.Secret()
	if secret.Empty() {
		secret = redact.New(ids.New())
	}
	if !ids.IsUUID(secret.Reveal()) {
		return nil, fault.WithHint(
			fault.New(fault.Invalid, "bootstrap", "access control lists", "the secret is no UUID"),
			"make one with uuidgen, or leave it out: the servers make one then")
	}
	cmd := &acls.Bootstrap{Accessor: ids.New(), SecretHash: acl.HashSecret(secret)}
	if done := e.cfg.Store.Snapshot().ACLBootstrap(nil); done != nil {
		var err error
		if cmd.Reset, err = e.reset(); err != nil {
			return nil, err
		}
		if cmd.Reset != done.ModifyIndex { // said here already: whoever guesses would write as fast as he guesses
			return nil, acls.Bootstrapped(done.ModifyIndex)
		}
	}
	t, index, err := fsm.Propose[*acl.Token](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("access control lists were bootstrapped: there is a token that may do everything", "accessor",
		t.Accessor, "reset", cmd.Reset != 0, "by", req.By)
	return e.written(t, index, secret), nil
}

// maxResetFile bounds the file with a number, in bytes.
const maxResetFile = 64

// reset reads the index by which a person who has the disk of the server that leads says that the first token may be
// made again; 0: there is no such file.
func (e *Endpoints) reset() (uint64, error) {
	f, err := os.Open(e.cfg.ResetFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, fault.Note(err, "bootstrap", "access control lists")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxResetFile))
	if err != nil {
		return 0, fault.Note(err, "read", e.cfg.ResetFile)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fault.WithHint(
			fault.New(fault.Invalid, "read", e.cfg.ResetFile, "it does not hold a whole number"),
			"write the reset index into it, and nothing else")
	}
	return n, nil
}
