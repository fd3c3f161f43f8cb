package acls

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/acls"
	"berth/internal/server/state"
	"berth/internal/wire"
)

func (e *Endpoints) roleList(ctx context.Context, req *wire.Query) (*wire.List[*acl.Role], error) {
	out := &wire.List[*acl.Role]{}
	return out, e.cfg.Read(ctx, *req, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		var list []*acl.Role
		for r := range s.ACLRoles(w, serving.UUIDPrefix(req.Prefix)) {
			list = append(list, r)
		}
		out.Items, out.NextToken = wire.Cut(req.Page, list, (*acl.Role).Key)
		return s.TableIndex(state.ACLRoles), nil
	})
}

func (e *Endpoints) roleGet(ctx context.Context, req *wire.Ref[string]) (*wire.One[acl.Role], error) {
	return e.role(ctx, req, (*state.Snap).ACLRole)
}

func (e *Endpoints) roleNamed(ctx context.Context, req *wire.Ref[string]) (*wire.One[acl.Role], error) {
	return e.role(ctx, req, (*state.Snap).ACLRoleNamed)
}

// role reads a role that is found by one of its keys.
func (e *Endpoints) role(
	ctx context.Context, req *wire.Ref[string], find func(*state.Snap, *state.Watch, string) *acl.Role,
) (*wire.One[acl.Role], error) {
	out := &wire.One[acl.Role]{}
	return out, e.cfg.Read(ctx, req.Query, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Item = find(s, w, req.ID)
		if out.Item == nil {
			return s.ReadIndex(state.ACLRoles), nil
		}
		return s.ReadIndex(state.ACLRoles, out.Item.ModifyIndex), nil
	})
}

func (e *Endpoints) rolePut(ctx context.Context, req *wire.ACLRolePutRequest) (*wire.ACLRoleReply, error) {
	cmd := &acls.RolePut{
		ID:          req.ID,
		Name:        req.Name,
		Description: req.Description,
		Policies:    req.Policies,
	}
	if cmd.ID == "" {
		cmd.New = true
		cmd.ID = ids.New()
	}
	r, index, err := fsm.Propose[*acl.Role](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Info("an ACL role was written", "role", r.ID, "name", r.Name, "by", req.By)
	return &wire.ACLRoleReply{Index: index, Role: r}, nil
}

func (e *Endpoints) roleDelete(ctx context.Context, req *wire.ACLDeleteRequest) (*wire.Written, error) {
	_, index, err := e.cfg.Proposer.Propose(ctx, &acls.RoleDelete{ID: req.ID})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("an ACL role was deleted", "role", req.ID, "by", req.By)
	return &wire.Written{Index: index}, nil
}
