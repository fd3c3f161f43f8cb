package acl

import (
	"slices"
	"strings"
)

// Rules are what several policies allow together, ready to be asked. Nil allows nothing. They do not change once they
// are made.
type Rules struct {
	management bool
	scopes     map[Kind][]scope
}

// scope is what is given for the names of one pattern.
type scope struct {
	pattern string
	gives   map[Capability]bool
}

// allows tells that it gives a capability, or one of which it is a part.
func (s scope) allows(c Capability) bool {
	return s.gives[c] || s.gives[SubmitJob] && slices.Contains(partsOfSubmit, c)
}

// Management are the rules of a management token: everything.
func Management() *Rules { return &Rules{management: true} }

// Compile merges documents. Their order, and that of the rules in them, plays no part: what several rules say of one
// pattern adds up, and a deny among them takes all of it away.
func Compile(documents ...*Document) *Rules {
	r := &Rules{scopes: map[Kind][]scope{}}
	for _, d := range documents {
		for _, rule := range d.Rules {
			of := r.scopes[rule.Kind]
			i := slices.IndexFunc(of, func(s scope) bool { return s.pattern == rule.Pattern })
			if i < 0 {
				i = len(of)
				of = append(of, scope{rule.Pattern, map[Capability]bool{}})
				r.scopes[rule.Kind] = of
			}
			for _, c := range rule.Gives() {
				of[i].gives[c] = true
			}
		}
	}
	return r
}

// Allows reports whether something may be done in a namespace. See AllowsOn.
func (r *Rules) Allows(c Capability, namespace string) bool {
	return r.AllowsOn(Namespace, namespace, c)
}

// AllowsOn reports whether something may be done with what a kind of rules is about. Of kinds without patterns the name
// is empty.
//
// A name is that of one object: only management is allowed something of "*", so that whoever lists several namespaces
// has to ask for each. The rules of the closest pattern alone decide: the name itself, otherwise the pattern with the
// most characters beside its stars; of several that are equally close any may give, and any may deny.
func (r *Rules) AllowsOn(kind Kind, name string, c Capability) bool {
	switch {
	case r == nil:
		return false
	case r.management:
		return true
	case strings.Contains(name, "*"):
		return false
	}
	closest := -1
	var gives, denied bool
	for _, s := range r.scopes[kind] {
		near := closeness(s.pattern, name)
		if near < 0 || near < closest {
			continue
		}
		if near > closest {
			closest = near
			gives = false
			denied = false
		}
		gives = gives || s.allows(c)
		denied = denied || s.gives[Deny]
	}
	return gives && !denied
}
