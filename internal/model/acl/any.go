package acl

import "slices"

// Sees reports whether anything may be done in a namespace, so that its name is no secret.
func (r *Rules) Sees(namespace string) bool {
	return slices.ContainsFunc(inNamespace, func(c Capability) bool { return c != Deny && r.Allows(c, namespace) })
}

// Nothing reports whether no rule gives anything.
func (r *Rules) Nothing() bool { return r == nil || !r.management && len(r.scopes) == 0 }
