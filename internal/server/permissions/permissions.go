// Package permissions owns what a person needs for a call: one table, from methods to the capabilities that they ask
// for, on the objects that the state knows. Only serving judges by it, and the server that passes calls on to nodes.
package permissions

import (
	"fmt"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/acl"
	"berth/internal/model/variable"
	"berth/internal/server/rights"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// who may make a call beside those whose rights are asked for.
type who uint8

const (
	rightful who = iota // who has what it needs
	everybody
	atServers // everybody who comes by the surface of a server's own agent, which has its own guard
	holders   // whoever has a token that is good
	nodes     // no person: a node, with its own identity
	servers   // no person: a server that has judged for whom it asks
)

// entry is what a method asks for.
type entry struct {
	method string
	who    who
	needs  func(req any, s *state.Snap) []need
}

// Caller is what a person was found to be.
type Caller struct {
	Rules     *acl.Rules
	Name      string // for the record
	Anonymous bool
	// Workload is the task as which the caller may do more than the rules say; nil: as none.
	Workload *variable.Workload
	Expires  time.Time // of the token; zero: it does not
}

// Powerless tells whether the caller may do nothing but what everybody may. A task has something without a rule.
func (c *Caller) Powerless() bool { return c.Rules.Nothing() && c.Workload == nil }

// Judge decides whether a call may be made for a person. passed: a server passed it on. An error is fault.Denied,
// unless the state cannot say it. The watch hears of changes of the person's rights.
func Judge(
	s *state.Snap, w *state.Watch, p wire.Person, method string, req any, passed bool, now time.Time,
) (*Caller, error) {
	e, known := table[method]
	switch {
	case !known:
		return nil, denied("nothing says who may call "+method, "")
	case e.who == nodes, e.who == servers && !passed:
		return nil, denied("this is not for people", "")
	case p.Local || e.who == servers:
		return &Caller{Rules: acl.Management(), Name: p.Name}, nil
	}
	holder, rules, err := rights.Of(s, w, p.Token, now)
	switch {
	case (e.who == everybody || e.who == atServers) && err != nil:
		return &Caller{Anonymous: true}, nil // whom it knows does not matter
	case fault.Has(err, fault.Denied):
		return nil, denied("ACL token not found", "it may have expired; ask whoever gave it for another one")
	case err != nil:
		return nil, err
	case e.who == holders && p.Token.Empty():
		return nil, denied("the request shows no token", "give one with -token, BERTH_TOKEN or NOMAD_TOKEN")
	}
	v := &Caller{Rules: rules, Name: holder.String(), Anonymous: p.Token.Empty(), Expires: holder.Expires}
	if holder.Workload != nil {
		v.Workload = &holder.Workload.Workload
	}
	if e.needs == nil {
		return v, nil
	}
	for _, n := range e.needs(req, s) {
		if n.met(v) {
			continue
		}
		if n.byID && !v.Rules.Sees(n.Name) {
			n.untold = true
			return nil, &Unseen{lacks(n, v.Anonymous)}
		}
		return nil, lacks(n, v.Anonymous)
	}
	return v, nil
}

// ForNobody tells methods that no person may call on any server.
func ForNobody(method string) bool {
	e, known := table[method]
	return !known || e.who == nodes || e.who == servers
}

// AtServers tells methods that persons call by the surface of a server's own agent alone.
func AtServers(method string) bool { return table[method].who == atServers }

// Known tells whether the table says who may call a method.
func Known(method string) bool {
	_, known := table[method]
	return known
}

// denied is a refusal that begins with the words by which clients of this API know it.
func denied(why, hint string) error {
	return fault.WithHint(fault.New(fault.Denied, "", "Permission denied", why), hint)
}

// lacks refuses for want of a capability.
func lacks(n need, anonymous bool) error {
	why := "the token does not give " + n.String()
	if anonymous {
		why = "without a token there is no " + n.String()
	}
	if n.Kind == wire.Management && !n.untold {
		return denied(strings.Replace(why, "does not give", "is no", 1), "show a management token, or ask who has one")
	}
	rule := string(n.Kind)
	if n.Somewhere {
		rule += " \"NAME\""
	}
	if n.Name != "" {
		rule += fmt.Sprintf(" %q", n.Name)
	}
	switch {
	case n.Variable != "":
		return denied(why, "a policy gives it with: "+variableRule(n))
	case n.untold:
		return denied(why, "its token has to have a policy for the namespace of what is asked for")
	case n.Kind == acl.Namespace, n.Kind == acl.NodePool, n.Kind == acl.HostVolume:
		return denied(why, fmt.Sprintf("a policy gives it with: %s { capabilities = [%q] }", rule, n.Any[0]))
	}
	return denied(why, fmt.Sprintf("a policy gives it with: %s { policy = %q }", rule, n.Any[0]))
}
