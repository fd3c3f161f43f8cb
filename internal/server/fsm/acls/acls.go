// Package acls owns the commands that write access control lists: policies, roles, tokens, and the first token of all.
// What is written is judged once more where it is applied: whatever a list names is there at that moment. Only packages
// of the server import it.
package acls

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/model/acl"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// Schema is the number of the cluster from which on it has access control lists.
const Schema = 8

func init() {
	fsm.Register[PolicyPut]("acl-policy-put", Schema, "server/endpoint/acls")
	fsm.Register[PolicyDelete]("acl-policy-delete", Schema, "server/endpoint/acls")
	fsm.Register[RolePut]("acl-role-put", Schema, "server/endpoint/acls")
	fsm.Register[RoleDelete]("acl-role-delete", Schema, "server/endpoint/acls")
	fsm.Register[TokenPut]("acl-token-put", Schema, "server/endpoint/acls")
	fsm.Register[TokenDelete]("acl-token-delete", Schema, "server/endpoint/acls")
	fsm.Register[Bootstrap]("acl-bootstrap", Schema, "server/endpoint/acls")
	fsm.Register[TokensExpire]("acl-tokens-expire", Schema, "server/gc")
}

// Bounds of the tables, so that they take some 200 MiB of the servers' memory at most: the texts of policies are the
// largest part. Tokens that have expired do not count.
const (
	MaxPolicies = 2000
	MaxRoles    = 2000
	MaxTokens   = 20_000
)

// full refuses one more than there may be.
func full(what string, most int, hint string) error {
	return fault.WithHint(
		fault.New(fault.Invalid, "make", what, fmt.Sprintf("there are %d already, which is the bound", most)), hint)
}

// Gone is the answer of what names a list that is not there, by the words that clients of the API know.
func Gone(what string) error { return fault.New(fault.NotFound, "", "", what+" not found") }

// What lists are called where one is gone.
const (
	APolicy = "ACL policy"
	ARole   = "ACL role"
	AToken  = "ACL token"
)

// PolicyPut writes a policy.
type PolicyPut struct {
	Name        string
	Description string
	Rules       string
	Job         *acl.JobScope `cbor:",omitempty"`
}

// Needs is what a policy of a job needs: a server of an older version would not know whose it is.
func (c *PolicyPut) Needs() uint64 {
	if c.Job != nil {
		return job.SchemaIdentities
	}
	return 0
}

// Apply returns the stored *acl.Policy. One that is there already, word by word, stays as it is.
func (c *PolicyPut) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	p := &acl.Policy{Name: c.Name, Description: c.Description, Rules: c.Rules, Job: c.Job}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	old := tx.ACLPolicy(nil, p.Name)
	switch {
	case old != nil && old.Description == p.Description && old.Rules == p.Rules && sameScope(old.Job, p.Job):
		return old, nil
	case old == nil && !below(tx.ACLPolicies(nil, ""), MaxPolicies):
		return nil, full(APolicy, MaxPolicies, "look at them with berth acl policy list, and delete some")
	}
	tx.PutACLPolicy(p)
	return p, nil
}

func sameScope(a, b *acl.JobScope) bool { return a == b || a != nil && b != nil && *a == *b }

// PolicyDelete removes a policy. Tokens and roles that name it lose what it gives.
type PolicyDelete struct{ Name string }

// Apply returns nil.
func (c *PolicyDelete) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	if !tx.DeleteACLPolicy(c.Name) {
		return nil, Gone(APolicy)
	}
	return nil, nil
}

// Releases is true: it takes something away.
func (c *PolicyDelete) Releases() bool { return true }

// RolePut writes a role: a new one, or one that there is.
type RolePut struct {
	New         bool
	ID          string
	Name        string
	Description string
	Policies    []string
}

// Apply returns the stored *acl.Role.
func (c *RolePut) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	r := &acl.Role{ID: c.ID, Name: c.Name, Description: c.Description, Policies: unique(c.Policies)}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	old, named := tx.ACLRole(nil, r.ID), tx.ACLRoleNamed(nil, r.Name)
	switch {
	case c.New && old != nil:
		return nil, fault.New(fault.Conflict, "make", ARole, "there is another one of id "+r.ID)
	case !c.New && old == nil:
		return nil, Gone(ARole)
	case named != nil && named.ID != r.ID:
		return nil, fault.WithHint(
			fault.New(fault.Invalid, "write", fmt.Sprintf("%s %q", ARole, r.Name), "role "+named.ID+" has this name"),
			"choose another name, or update that one")
	case c.New && !below(tx.ACLRoles(nil, ""), MaxRoles):
		return nil, full(ARole, MaxRoles, "look at them with berth acl role list, and delete some")
	}
	if err := known(tx, fmt.Sprintf("%s %q", ARole, r.Name), r.Policies, nil); err != nil {
		return nil, err
	}
	tx.PutACLRole(r)
	return r, nil
}

// RoleDelete removes a role. Tokens that name it lose what it gives.
type RoleDelete struct{ ID string }

// Apply returns nil.
func (c *RoleDelete) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	if !tx.DeleteACLRole(c.ID) {
		return nil, Gone(ARole)
	}
	return nil, nil
}

// Releases is true: it takes something away.
func (c *RoleDelete) Releases() bool { return true }
