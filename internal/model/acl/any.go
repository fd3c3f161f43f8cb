package acl

import (
	"slices"
	"strings"
)

// Sees reports whether anything may be done in a namespace, so that its name is no secret.
func (r *Rules) Sees(namespace string) bool {
	return slices.ContainsFunc(inNamespace, func(c Capability) bool { return c != Deny && r.Allows(c, namespace) }) ||
		r.seesVariables(namespace)
}

// seesVariables reports whether anything may be done with variables of a namespace.
func (r *Rules) seesVariables(namespace string) bool {
	if r == nil || strings.Contains(namespace, "*") {
		return false
	}
	of := nearest(r.scopes[Namespace], namespace)
	_, denied := judge(of, Deny)
	return !denied && slices.ContainsFunc(of, func(s scope) bool {
		return slices.ContainsFunc(s.variables, func(v scope) bool { return len(v.gives) > 0 && !v.gives[Deny] })
	})
}

// Nothing reports whether no rule gives anything.
func (r *Rules) Nothing() bool { return r == nil || !r.management && len(r.scopes) == 0 }

// AllowsSomewhere reports whether there may be a name with which a kind of rules allows one of the capabilities. That
// another rule, of a closer pattern, takes it away again plays no part.
func (r *Rules) AllowsSomewhere(kind Kind, any ...Capability) bool {
	if r == nil || r.management {
		return r != nil
	}
	return slices.ContainsFunc(r.scopes[kind], func(s scope) bool {
		return slices.ContainsFunc(any, s.allows)
	})
}
