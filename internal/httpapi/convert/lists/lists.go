// Package lists owns how the objects of access control lists are shown to clients of this API, and read from them. Only
// httpapi imports it.
package lists

import (
	"time"

	"berth/api"
	"berth/internal/base/redact"
	"berth/internal/httpapi/convert/objects"
	"berth/internal/model/acl"
	"berth/internal/wire"
)

// ACLToken is the public form of a token; secret is there for who made it, or has it.
func ACLToken(v *wire.ACLTokenView, secret redact.Secret) *api.ACLToken {
	stub := ACLTokenStub(v)
	out := &api.ACLToken{
		AccessorID:     stub.AccessorID,
		SecretID:       secret.Reveal(),
		Name:           stub.Name,
		Type:           stub.Type,
		Policies:       stub.Policies,
		Roles:          stub.Roles,
		Global:         stub.Global,
		Hash:           stub.Hash,
		CreateTime:     stub.CreateTime,
		ExpirationTime: stub.ExpirationTime,
		CreateIndex:    stub.CreateIndex,
		ModifyIndex:    stub.ModifyIndex,
	}
	if !v.Token.Expires.IsZero() {
		out.ExpirationTTL = v.Token.Expires.Sub(v.Token.Created).String()
	}
	return out
}

// ACLTokenStub is the public form of a token in a list.
func ACLTokenStub(v *wire.ACLTokenView) *api.ACLTokenListStub {
	t := v.Token
	out := &api.ACLTokenListStub{
		AccessorID:     t.Accessor,
		Name:           t.Name,
		Type:           string(t.Type),
		Policies:       t.Policies,
		Global:         t.Global,
		Hash:           objects.Hash(t.Name, t.Type, t.Policies, t.Roles, t.Global, t.Expires),
		CreateTime:     t.Created,
		ExpirationTime: expires(t),
		CreateIndex:    t.CreateIndex,
		ModifyIndex:    t.ModifyIndex,
	}
	for _, id := range t.Roles {
		if name, there := v.Roles[id]; there {
			out.Roles = append(out.Roles, &api.ACLTokenRoleLink{ID: id, Name: name})
		}
	}
	return out
}

// ACLRole is the public form of a role.
func ACLRole(r *acl.Role) *api.ACLRole {
	out := &api.ACLRole{
		ID:          r.ID,
		Name:        r.Name,
		Description: r.Description,
		Hash:        objects.Hash(r.Name, r.Description, r.Policies),
		CreateIndex: r.CreateIndex,
		ModifyIndex: r.ModifyIndex,
	}
	for _, name := range r.Policies {
		out.Policies = append(out.Policies, &api.ACLRolePolicyLink{Name: name})
	}
	return out
}

// ACLPolicyStub is the public form of a policy in a list.
func ACLPolicyStub(p *acl.Policy) *api.ACLPolicyListStub {
	return &api.ACLPolicyListStub{
		Name:        p.Name,
		Description: p.Description,
		JobACL:      jobACL(p.Job),
		Hash:        objects.Hash(p.Name, p.Description, p.Rules, jobACL(p.Job)),
		CreateIndex: p.CreateIndex,
		ModifyIndex: p.ModifyIndex,
	}
}

func jobACL(s *acl.JobScope) *api.JobACL {
	if s == nil {
		return nil
	}
	return &api.JobACL{Namespace: string(s.Namespace), JobID: string(s.Job), Group: s.Group, Task: s.Task}
}

// ACLPolicy is the public form of a policy, with what its text says.
func ACLPolicy(p *acl.Policy) *api.ACLPolicy {
	stub := ACLPolicyStub(p)
	return &api.ACLPolicy{
		Name:        p.Name,
		Description: p.Description,
		Rules:       p.Rules,
		RulesJSON:   aclRules(p),
		JobACL:      stub.JobACL,
		Hash:        stub.Hash,
		CreateIndex: p.CreateIndex,
		ModifyIndex: p.ModifyIndex,
	}
}

// aclRules is what the text of a policy says; of one that cannot be read the text alone.
func aclRules(p *acl.Policy) *api.ACLRules {
	out := &api.ACLRules{Raw: p.Rules}
	doc, _ := acl.Parse(p.Name, p.Rules)
	if doc == nil {
		return out
	}
	plain := map[acl.Kind]**api.ACLRule{
		acl.Agent:    &out.Agent,
		acl.Node:     &out.Node,
		acl.Operator: &out.Operator,
		acl.Quota:    &out.Quota,
		acl.Plugin:   &out.Plugin,
	}
	for i := range doc.Rules {
		r := &doc.Rules[i]
		switch r.Kind {
		case acl.Namespace:
			out.Namespaces = append(out.Namespaces, namespaceRule(r))
		case acl.NodePool:
			out.NodePools = append(out.NodePools, namedRule(r))
		case acl.HostVolume:
			out.HostVolumes = append(out.HostVolumes, namedRule(r))
		default:
			if at := plain[r.Kind]; at != nil {
				*at = &api.ACLRule{Policy: r.Policy}
			}
		}
	}
	return out
}

func namedRule(r *acl.Rule) *api.ACLNamedRule {
	return &api.ACLNamedRule{Name: r.Pattern, Policy: r.Policy, Capabilities: capabilities(r.Gives())}
}

func namespaceRule(r *acl.Rule) *api.ACLNamespaceRule {
	out := &api.ACLNamespaceRule{Name: r.Pattern, Policy: r.Policy, Capabilities: capabilities(r.Gives())}
	for _, v := range r.Variables {
		if out.Variables == nil {
			out.Variables = &api.ACLVariablesRule{}
		}
		path := &api.ACLPathRule{PathSpec: v.Path, Capabilities: capabilities(v.Capabilities)}
		out.Variables.Paths = append(out.Variables.Paths, path)
	}
	return out
}

func capabilities(of []acl.Capability) (out []string) {
	for _, c := range of {
		out = append(out, string(c))
	}
	return out
}

// expires is when a token ends, if it does.
func expires(t *acl.Token) *time.Time {
	if t.Expires.IsZero() {
		return nil
	}
	return &t.Expires
}
