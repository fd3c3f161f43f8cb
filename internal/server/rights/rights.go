// Package rights owns the way from a secret to what it allows: the token, its policies and those of its roles,
// compiled. The endpoints of the servers ask it; it changes nothing.
package rights

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/model/workload"
	"berth/internal/server/state"
)

// Person is who calls, as far as the token says. Without a token everything is empty.
type Person struct {
	Accessor   string
	Name       string // of the token
	Management bool
	// Workload is the task whose signed identity is the token; nil: it is none.
	Workload *Workload
	Expires  time.Time // of the token; zero: it does not
}

// Anonymous reports whether there is no token.
func (p Person) Anonymous() bool { return p.Accessor == "" && p.Workload == nil }

// String is what logs call the person.
func (p Person) String() string {
	switch {
	case p.Anonymous():
		return "anonymous"
	case p.Workload != nil:
		return p.Workload.String()
	case p.Name == "":
		return "token " + p.Accessor
	}
	return "token " + p.Accessor + " (" + p.Name + ")"
}

// NotFound is the answer to a secret that no token has, or none that is still good. Whoever guesses learns nothing
// else.
func NotFound() error { return fault.New(fault.Denied, "", "", "ACL token not found") }

// TokenOf finds the token of a secret, NotFound if there is none or it has expired.
func TokenOf(snap *state.Snap, watch *state.Watch, secret redact.Secret, now time.Time) (*acl.Token, error) {
	t := snap.ACLTokenOf(watch, secret)
	if t == nil || !t.Holds(secret) || t.Expired(now) {
		return nil, NotFound()
	}
	return t, nil
}

// Of says who has a secret and what he may do. Without a secret that is what the policy of anonymous requests says,
// which is nothing where there is none. The watch hears of every change of the answer but that a token expires.
func Of(
	snap *state.Snap, watch *state.Watch, secret redact.Secret, now time.Time,
) (who Person, rules *acl.Rules, err error) {
	if secret.Empty() {
		rules, err = compiled.of(policies(snap, watch, []string{acl.AnonymousPolicy}))
		return Person{}, rules, err
	}
	if workload.Is(secret) {
		of, err := WorkloadOf(snap, watch, secret, now)
		if err != nil {
			return Person{}, nil, err
		}
		rules, err = compiled.of(of.Policies)
		return Person{Workload: of, Expires: of.Claims.Ends()}, rules, err
	}
	t, err := TokenOf(snap, watch, secret, now)
	if err != nil {
		return Person{}, nil, err
	}
	who = Person{
		Accessor:   t.Accessor,
		Name:       t.Name,
		Management: t.Type == acl.ManagementToken,
		Expires:    t.Expires,
	}
	if who.Management {
		return who, acl.Management(), nil
	}
	rules, err = compiled.of(policies(snap, watch, Policies(snap, watch, t)))
	return who, rules, err
}

// Policies names the policies of a token, its own and those of its roles, each once and in order. Some may be gone.
func Policies(snap *state.Snap, watch *state.Watch, t *acl.Token) []string {
	names := slices.Clone(t.Policies)
	for _, id := range t.Roles {
		if r := snap.ACLRole(watch, id); r != nil {
			names = append(names, r.Policies...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// policies reads those that exist.
func policies(snap *state.Snap, watch *state.Watch, names []string) (out []*acl.Policy) {
	for _, name := range names {
		if p := snap.ACLPolicy(watch, name); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// maxCompiled bounds the sets of policies that stay compiled. There are many tokens but few sets.
const maxCompiled = 256

// compiled is of the whole process: an entry is good for exactly the objects of the state that it was made of.
var compiled cache

// cache keeps compiled rules by what they are made of.
type cache struct {
	mu      sync.Mutex
	entries map[string]entry
	made    int // compilations so far
}

// entry knows its policies themselves, which never change: their indexes name other ones in another cluster's state,
// and may after a restore.
type entry struct {
	from  []*acl.Policy
	rules *acl.Rules
}

func (c *cache) of(from []*acl.Policy) (*acl.Rules, error) {
	key := keyOf(from)
	c.mu.Lock()
	known, ok := c.entries[key]
	c.mu.Unlock()
	if ok && slices.Equal(known.from, from) {
		return known.rules, nil
	}
	docs := make([]*acl.Document, len(from))
	for i, p := range from {
		doc, findings := acl.Parse(p.Name, p.Rules)
		if len(findings) > 0 {
			// It was judged before it was stored, perhaps by an older program. What it denies must not get lost.
			return nil, fault.WithHint(
				fault.New(fault.Denied, "read", "ACL policy "+p.Name, findings[0].String()),
				"whoever has a management token writes it anew: berth acl policy apply NAME FILE")
		}
		docs[i] = doc
	}
	rules := acl.Compile(docs...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= maxCompiled {
		c.entries = map[string]entry{}
	}
	c.entries[key] = entry{from, rules}
	c.made++
	return rules, nil
}

func keyOf(from []*acl.Policy) string {
	var b strings.Builder
	for _, p := range from {
		b.WriteString(p.Name)
		b.WriteByte('@')
		b.WriteString(strconv.FormatUint(p.ModifyIndex, 10))
		b.WriteByte(' ')
	}
	return b.String()
}
