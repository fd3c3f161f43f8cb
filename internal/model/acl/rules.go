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
	pattern   string
	gives     map[Capability]bool
	variables []scope // of a namespace: by patterns of paths
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
			of, at := adding(r.scopes[rule.Kind], rule.Pattern, rule.Gives())
			for _, v := range rule.Variables {
				at.variables, _ = adding(at.variables, v.Path, v.Capabilities)
			}
			r.scopes[rule.Kind] = of
		}
	}
	return r
}

// adding gives something for a pattern; at is what is given for it then.
func adding(to []scope, pattern string, gives []Capability) (of []scope, at *scope) {
	i := slices.IndexFunc(to, func(s scope) bool { return s.pattern == pattern })
	if i < 0 {
		i = len(to)
		to = append(to, scope{pattern: pattern, gives: map[Capability]bool{}})
	}
	for _, c := range gives {
		to[i].gives[c] = true
	}
	return to, &to[i]
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
	gives, denied := judge(nearest(r.scopes[kind], name), c)
	return gives && !denied
}

// nearest are the scopes whose pattern comes closest to a name.
func nearest(of []scope, name string) (out []scope) {
	closest := -1
	for _, s := range of {
		near := closeness(s.pattern, name)
		if near < 0 || near < closest {
			continue
		}
		if near > closest {
			closest = near
			out = nil
		}
		out = append(out, s)
	}
	return out
}

// judge says whether one of them gives something, and whether one denies everything.
func judge(of []scope, c Capability) (gives, denied bool) {
	for _, s := range of {
		gives = gives || s.allows(c)
		denied = denied || s.gives[Deny]
	}
	return gives, denied
}

// AllowsVariable reports whether something may be done with the variable at a path of a namespace. The level of a
// namespace's rule gives nothing of variables, and its deny takes all of them. Of the rules that decide for the
// namespace, those of the closest pattern of paths alone decide. Whoever may read or write, may list.
func (r *Rules) AllowsVariable(c Capability, namespace, path string) bool {
	switch {
	case r == nil:
		return false
	case r.management:
		return true
	case strings.Contains(namespace, "*"), strings.Contains(path, "*"):
		return false
	}
	of := nearest(r.scopes[Namespace], namespace)
	_, denied := judge(of, c)
	var paths []scope
	for _, s := range of {
		paths = append(paths, s.variables...)
	}
	paths = nearest(paths, path)
	gives, not := judge(paths, c)
	for _, more := range listedBy[c] {
		too, _ := judge(paths, more)
		gives = gives || too
	}
	return gives && !not && !denied
}

// listedBy are the capabilities in which another one is included.
var listedBy = map[Capability][]Capability{List: {Read, Write}}
