// Package acls owns the answers about access control lists: policies, roles and tokens, and the first token of all. Who
// may ask is judged before; what a policy's reader may see, here. Only package endpoint constructs it.
package acls

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"berth/internal/base/fault"
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

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer fsm.Proposer
	// ResetFile is where a person writes the index that lets the first token be made again.
	ResetFile string
	Lifetime  acl.Life // of tokens that expire; the zero value: acl.DefaultLife
	Log       *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints {
	if cfg.Lifetime == (acl.Life{}) {
		cfg.Lifetime = acl.DefaultLife
	}
	return &Endpoints{cfg}
}

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.ACLBootstrap, e.bootstrap)
	serving.Unary(e.cfg.Base, s, wire.ACLPolicyList, e.policyList)
	serving.Unary(e.cfg.Base, s, wire.ACLPolicyGet, e.policyGet)
	serving.Unary(e.cfg.Base, s, wire.ACLPolicyPut, e.policyPut)
	serving.Unary(e.cfg.Base, s, wire.ACLPolicyDelete, e.policyDelete)
	serving.Unary(e.cfg.Base, s, wire.ACLRoleList, e.roleList)
	serving.Unary(e.cfg.Base, s, wire.ACLRoleGet, e.roleGet)
	serving.Unary(e.cfg.Base, s, wire.ACLRoleNamed, e.roleNamed)
	serving.Unary(e.cfg.Base, s, wire.ACLRolePut, e.rolePut)
	serving.Unary(e.cfg.Base, s, wire.ACLRoleDelete, e.roleDelete)
	serving.Unary(e.cfg.Base, s, wire.ACLTokenList, e.tokenList)
	serving.Unary(e.cfg.Base, s, wire.ACLTokenGet, e.tokenGet)
	serving.Unary(e.cfg.Base, s, wire.ACLTokenSelf, e.tokenSelf)
	serving.Unary(e.cfg.Base, s, wire.ACLTokenPut, e.tokenPut)
	serving.Unary(e.cfg.Base, s, wire.ACLTokenDelete, e.tokenDelete)
}

// visible says which policies somebody may see: who manages all, whoever else shows a token its own. Who shows none was
// let in otherwise, and sees all.
func visible(s *state.Snap, w *state.Watch, secret redact.Secret) (func(name string) bool, error) {
	all := func(string) bool { return true }
	if secret.Empty() {
		return all, nil
	}
	if workload.Is(secret) {
		of, err := rights.WorkloadOf(s, w, secret, time.Now())
		if err != nil {
			return nil, err
		}
		return func(name string) bool { return slices.Contains(of.Names(), name) }, nil
	}
	t, err := rights.TokenOf(s, w, secret, time.Now())
	if err != nil {
		return nil, err
	}
	if t.Type == acl.ManagementToken {
		return all, nil
	}
	own := rights.Policies(s, w, t)
	return func(name string) bool { return slices.Contains(own, name) }, nil
}

func (e *Endpoints) policyList(
	ctx context.Context, req *wire.ACLPolicyListRequest,
) (*wire.List[*acl.Policy], error) {
	out := &wire.List[*acl.Policy]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		sees, err := visible(s, w, req.Secret.Secret())
		if err != nil {
			return 0, err
		}
		var list []*acl.Policy
		for p := range s.ACLPolicies(w, req.Prefix) {
			if sees(p.Name) {
				list = append(list, p)
			}
		}
		out.Items, out.NextToken = wire.Cut(req.Page, list, (*acl.Policy).Key)
		index := s.TableIndex(state.ACLPolicies)
		if !req.Secret.Secret().Empty() {
			index = max(index, s.TableIndex(state.ACLTokens), s.TableIndex(state.ACLRoles))
		}
		return index, nil
	})
}

func (e *Endpoints) policyGet(ctx context.Context, req *wire.ACLPolicyRequest) (*wire.One[acl.Policy], error) {
	out := &wire.One[acl.Policy]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		sees, err := visible(s, w, req.Secret.Secret())
		if err != nil {
			return 0, err
		}
		if !sees(req.ID) {
			return 0, fault.New(fault.Denied, "", "", "Permission denied")
		}
		out.Item = s.ACLPolicy(w, req.ID)
		if out.Item == nil {
			return s.ReadIndex(state.ACLPolicies), nil
		}
		return s.ReadIndex(state.ACLPolicies, out.Item.ModifyIndex), nil
	})
}

func (e *Endpoints) policyPut(ctx context.Context, req *wire.ACLPolicyPutRequest) (*wire.Written, error) {
	asked := &acl.Policy{Name: req.Name, Description: req.Description, Rules: req.Rules, Job: req.Job}
	if err := asked.ValidateNew(); err != nil {
		return nil, err
	}
	p, index, err := fsm.Propose[*acl.Policy](ctx, e.cfg.Proposer, &acls.PolicyPut{
		Name:        req.Name,
		Description: req.Description,
		Rules:       req.Rules,
		Job:         req.Job,
	})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Info("an ACL policy was written", "policy", p.Name, "by", req.By)
	return &wire.Written{Index: index}, nil
}

func (e *Endpoints) policyDelete(ctx context.Context, req *wire.ACLDeleteRequest) (*wire.Written, error) {
	_, index, err := e.cfg.Proposer.Propose(ctx, &acls.PolicyDelete{Name: req.ID})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("an ACL policy was deleted", "policy", req.ID, "by", req.By)
	return &wire.Written{Index: index}, nil
}
