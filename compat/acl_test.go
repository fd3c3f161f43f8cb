package compat

import (
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"
)

const readAll = `namespace "default" { policy = "read" }`

// accessLists is the life of access control lists: the first token, a policy, a role, and a token that expires.
func accessLists(a *agent) {
	first := a.first
	if first.Type != "management" || !first.Global || len(first.SecretID) != 36 {
		a.t.Errorf("the first token is %s, global: %t", first.Type, first.Global)
	}
	_, _, err := a.ACLTokens().Bootstrap(nil)
	a.refused(err, "400 (ACL bootstrap already done (reset index: ")

	_, err = a.ACLPolicies().Upsert(&api.ACLPolicy{Name: "readers", Description: "d", Rules: readAll}, nil)
	a.ok(err)
	_, err = a.ACLPolicies().Upsert(&api.ACLPolicy{Name: "wrong", Rules: "namespace {"}, nil)
	a.refused(err, "400 (")
	policy, _, err := a.ACLPolicies().Info("readers", nil)
	a.ok(err)
	policies, _, err := a.ACLPolicies().List(nil)
	a.ok(err)
	if policy.Rules != readAll || len(policies) != 1 || policies[0].Description != "d" {
		a.t.Errorf("policy %+v, listed %+v", policy, policies)
	}
	_, _, err = a.ACLPolicies().Info("nobody", nil)
	a.refused(err, "404 (ACL policy not found)")

	links := []*api.ACLRolePolicyLink{{Name: "readers"}}
	role, _, err := a.ACLRoles().Create(&api.ACLRole{Name: "people", Policies: links}, nil)
	a.ok(err)
	role.Description = "those who look"
	_, _, err = a.ACLRoles().Update(role, nil)
	a.ok(err)
	named, _, err := a.ACLRoles().GetByName("people", nil)
	a.ok(err)
	same, _, err := a.ACLRoles().Get(role.ID, nil)
	a.ok(err)
	roles, _, err := a.ACLRoles().List(nil)
	a.ok(err)
	if named.ID != role.ID || same.Description != "those who look" || len(roles) != 1 {
		a.t.Errorf("role %+v, by name %+v, listed %+v", same, named, roles)
	}
	tokens(a, first, role)

	_, err = a.ACLRoles().Delete(role.ID, nil)
	a.ok(err)
	_, err = a.ACLPolicies().Delete("readers", nil)
	a.ok(err)
	_, _, err = a.ACLRoles().Get(role.ID, nil)
	a.refused(err, "404 (ACL role not found)")
}

// tokens is the life of one beside the first one.
func tokens(a *agent, first *api.ACLToken, role *api.ACLRole) {
	made, _, err := a.ACLTokens().Create(&api.ACLToken{
		Name:          "t",
		Type:          "client",
		Policies:      []string{"readers"},
		Roles:         []*api.ACLTokenRoleLink{{Name: "people"}},
		ExpirationTTL: time.Hour,
	}, nil)
	a.ok(err)
	if made.ExpirationTTL != time.Hour || made.ExpirationTime == nil || made.Roles[0].ID != role.ID {
		a.t.Errorf("made %+v", made)
	}
	self, _, err := a.ACLTokens().Self(&api.QueryOptions{AuthToken: made.SecretID})
	a.ok(err)
	if self.AccessorID != made.AccessorID || self.SecretID != made.SecretID {
		a.t.Errorf("self is %s", self.AccessorID)
	}
	_, _, err = a.ACLTokens().Self(&api.QueryOptions{AuthToken: made.AccessorID})
	a.refused(err, "403 (Permission denied: ACL token not found")
	own, _, err := a.ACLPolicies().Self(&api.QueryOptions{AuthToken: made.SecretID})
	a.ok(err)
	if len(own) != 1 || own[0].Name != "readers" {
		a.t.Errorf("its policies are %+v", own)
	}
	info, _, err := a.ACLTokens().Info(made.AccessorID, nil)
	a.ok(err)
	info.Name = "renamed"
	for _, as := range []*api.ACLToken{info, made} { // as it was read, and as it was made
		_, _, err = a.ACLTokens().Update(as, nil)
		a.ok(err)
	}
	upload := &api.ACLToken{
		AccessorID: "5a164351-8df7-4d4d-8fd6-c85e02425ec0",
		SecretID:   "8ebfe6b7-2801-41ba-9c10-0f4a887cb813",
		Name:       "made elsewhere",
		Type:       "client",
		Policies:   []string{"readers"},
	}
	_, _, err = a.ACLTokens().Upload(upload, nil)
	a.ok(err)
	list, _, err := a.ACLTokens().List(nil)
	a.ok(err)
	accessors := []string{first.AccessorID, made.AccessorID, upload.AccessorID}
	slices.Sort(accessors)
	var listed []string
	for _, t := range list {
		listed = append(listed, t.AccessorID)
	}
	if !slices.Equal(listed, accessors) {
		a.t.Errorf("listed %q, want %q", listed, accessors)
	}
	for _, accessor := range []string{made.AccessorID, upload.AccessorID} { // the first one is shown until the end
		_, err = a.ACLTokens().Delete(accessor, nil)
		a.ok(err)
	}
	_, _, err = a.ACLTokens().Info(made.AccessorID, nil)
	a.refused(err, "404 (ACL token not found)")
}
