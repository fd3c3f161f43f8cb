package state

import (
	"iter"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
)

// Names of the tables of access control lists.
const (
	ACLPolicies   = "acl-policies"
	ACLRoles      = "acl-roles"
	ACLTokens     = "acl-tokens"
	ACLBootstraps = "acl-bootstraps"
)

// Indexes of the tables of access control lists.
const (
	policyByJob    = "job" // whose tasks have it; those that no job has are not in it
	roleByName     = "name"
	tokenByHash    = "hash"
	tokenByExpires = "expires" // in the order of time; those that never expire are not in it
)

var aclPolicies = &table[acl.Policy]{
	name: ACLPolicies,
	key:  func(p *acl.Policy) Key { return KeyOf(p.Name) },
	indexes: []index[acl.Policy]{one(policyByJob, func(p *acl.Policy) Key {
		if p.Job == nil {
			return ""
		}
		return KeyOf(string(p.Job.Namespace), string(p.Job.Job))
	})},
	stamp:    stamping(func(o *acl.Policy) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(p *acl.Policy) uint64 { return p.ModifyIndex },
}

var aclRoles = &table[acl.Role]{
	name:     ACLRoles,
	key:      func(r *acl.Role) Key { return KeyOf(r.ID) },
	indexes:  []index[acl.Role]{one(roleByName, func(r *acl.Role) Key { return KeyOf(r.Name) })},
	stamp:    stamping(func(o *acl.Role) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(r *acl.Role) uint64 { return r.ModifyIndex },
}

var aclTokens = &table[acl.Token]{
	name: ACLTokens,
	key:  func(t *acl.Token) Key { return KeyOf(t.Accessor) },
	indexes: []index[acl.Token]{
		one(tokenByHash, func(t *acl.Token) Key { return KeyOf(string(t.SecretHash)) }),
		one(tokenByExpires, func(t *acl.Token) Key {
			if t.Expires.IsZero() {
				return ""
			}
			return expiresKey(t.Expires)
		}),
	},
	stamp:    stamping(func(o *acl.Token) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(t *acl.Token) uint64 { return t.ModifyIndex },
}

// expiresKey orders as time does, from 1970 on.
func expiresKey(t time.Time) Key { return KeyOf(number(uint64(max(0, t.UnixNano())))) }

// ACLBootstrap says that the first token of access control lists was made, and when: its ModifyIndex is what has to be
// written into the reset file to make another one.
type ACLBootstrap struct {
	Accessor                 string // of the token that was made
	CreateIndex, ModifyIndex uint64
}

var aclBootstraps = &table[ACLBootstrap]{
	name:     ACLBootstraps,
	key:      func(*ACLBootstrap) Key { return KeyOf(present) },
	stamp:    stamping(func(o *ACLBootstrap) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(b *ACLBootstrap) uint64 { return b.ModifyIndex },
}

// ACLPolicy returns a policy by its name, or nil.
func (s *Snap) ACLPolicy(w *Watch, name string) *acl.Policy {
	return aclPolicies.get(s, w, KeyOf(name))
}

// ACLPolicies yields the policies whose names begin with prefix, by name.
func (s *Snap) ACLPolicies(w *Watch, prefix string) iter.Seq[*acl.Policy] {
	return aclPolicies.scan(s, w, Key(prefix))
}

// ACLPoliciesOf yields the policies that tasks of a job have, those of a part of it among them.
func (s *Snap) ACLPoliciesOf(w *Watch, ns ids.Namespace, id ids.Job) iter.Seq[*acl.Policy] {
	return aclPolicies.find(s, w, policyByJob, KeyOf(string(ns), string(id)))
}

// PutACLPolicy stores a policy.
func (tx *Tx) PutACLPolicy(p *acl.Policy) { aclPolicies.put(tx, p) }

// DeleteACLPolicy removes a policy and tells whether it was there.
func (tx *Tx) DeleteACLPolicy(name string) bool { return aclPolicies.drop(tx, KeyOf(name)) }

// ACLRole returns a role by its id, or nil.
func (s *Snap) ACLRole(w *Watch, id string) *acl.Role { return aclRoles.get(s, w, KeyOf(id)) }

// ACLRoleNamed returns the role of a name, or nil.
func (s *Snap) ACLRoleNamed(w *Watch, name string) *acl.Role {
	for r := range aclRoles.find(s, w, roleByName, KeyOf(name)) {
		return r
	}
	return nil
}

// ACLRoles yields the roles whose ids begin with prefix, by id.
func (s *Snap) ACLRoles(w *Watch, prefix string) iter.Seq[*acl.Role] {
	return aclRoles.scan(s, w, Key(prefix))
}

// PutACLRole stores a role.
func (tx *Tx) PutACLRole(r *acl.Role) { aclRoles.put(tx, r) }

// DeleteACLRole removes a role and tells whether it was there.
func (tx *Tx) DeleteACLRole(id string) bool { return aclRoles.drop(tx, KeyOf(id)) }

// ACLToken returns a token by its accessor, or nil.
func (s *Snap) ACLToken(w *Watch, accessor string) *acl.Token {
	return aclTokens.get(s, w, KeyOf(accessor))
}

// ACLTokenOf returns the token of a secret, or nil. Whether it has expired, the caller asks.
func (s *Snap) ACLTokenOf(w *Watch, secret redact.Secret) *acl.Token {
	if secret.Empty() {
		return nil
	}
	return s.ACLTokenHashed(w, acl.HashSecret(secret))
}

// ACLTokenHashed returns the token of a secret's hash, or nil.
func (s *Snap) ACLTokenHashed(w *Watch, hash []byte) *acl.Token {
	for t := range aclTokens.find(s, w, tokenByHash, KeyOf(string(hash))) {
		return t
	}
	return nil
}

// ACLTokens yields the tokens whose accessors begin with prefix, by accessor.
func (s *Snap) ACLTokens(w *Watch, prefix string) iter.Seq[*acl.Token] {
	return aclTokens.scan(s, w, Key(prefix))
}

// ACLTokensByExpiry yields the tokens that expire some time, those that do first before the others.
func (s *Snap) ACLTokensByExpiry() iter.Seq[*acl.Token] {
	return aclTokens.since(s, tokenByExpires, "")
}

// PutACLToken stores a token.
func (tx *Tx) PutACLToken(t *acl.Token) { aclTokens.put(tx, t) }

// DeleteACLToken removes a token and tells whether it was there.
func (tx *Tx) DeleteACLToken(accessor string) bool { return aclTokens.drop(tx, KeyOf(accessor)) }

// ACLBootstrap says whether and when the first token was made; nil: it was not.
func (s *Snap) ACLBootstrap(w *Watch) *ACLBootstrap { return aclBootstraps.get(s, w, KeyOf(present)) }

// PutACLBootstrap stores that the first token was made.
func (tx *Tx) PutACLBootstrap(b *ACLBootstrap) { aclBootstraps.put(tx, b) }
