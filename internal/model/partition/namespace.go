// Package partition owns what divides a cluster: namespaces, which divide what users have, and node pools, which divide
// its nodes. It says what such an object may say, and what a namespace lets its jobs use. It stores nothing.
package partition

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"berth/internal/base/ids"
)

// Namespace is a named part of what users have, with what its jobs may use.
type Namespace struct {
	Name        ids.Namespace
	Description string
	CreateIndex uint64
	ModifyIndex uint64
	Meta        map[string]string `cbor:",omitempty"`
	// Capabilities is nil where its jobs may use every driver and every network mode.
	Capabilities *Capabilities `cbor:",omitempty"`
	// Pools is nil where its jobs may run in every node pool.
	Pools *PoolRules `cbor:",omitempty"`
}

// Capabilities are the drivers and network modes of a namespace. A list of what is enabled excludes what is not in it;
// an empty one excludes nothing. What is disabled is so even if it is enabled, too.
type Capabilities struct {
	EnabledDrivers       []string `cbor:",omitempty"`
	DisabledDrivers      []string `cbor:",omitempty"`
	EnabledNetworkModes  []string `cbor:",omitempty"`
	DisabledNetworkModes []string `cbor:",omitempty"`
}

// PoolRules are the node pools of a namespace. Patterns have stars, each for any characters.
type PoolRules struct {
	Default string   // of jobs that name none; empty: DefaultPool
	Allowed []string // patterns; nil: every pool, of length 0: Default alone
	Denied  []string `cbor:",omitempty"` // patterns, instead of Allowed
}

// DefaultNetworkMode is the mode of a network that names none.
const DefaultNetworkMode = "host"

// BuiltInNamespaces are those that every cluster has.
func BuiltInNamespaces() []*Namespace {
	return []*Namespace{
		{Name: ids.DefaultNamespace, Description: "Default shared namespace"},
		{Name: ids.ReservedNamespace, Description: "Berth's own jobs"},
	}
}

// Key is a namespace's place in lists.
func (n *Namespace) Key() string { return string(n.Name) }

// BuiltIn tells whether every cluster has the namespace: it is never deleted.
func (n *Namespace) BuiltIn() bool {
	return n.Name == ids.DefaultNamespace || n.Name == ids.ReservedNamespace
}

// Validate checks what somebody writes. Whether its default pool exists, the state knows.
func (n *Namespace) Validate() error {
	problems := common(string(n.Name), n.Description, n.Meta)
	if n.Name == ids.ReservedNamespace {
		problems = append(problems, "it is for Berth's own jobs, and nobody changes it; write another one")
	}
	if c := n.Capabilities; c != nil {
		for _, l := range []struct {
			what  string
			names []string
		}{
			{"enabled_task_drivers", c.EnabledDrivers}, {"disabled_task_drivers", c.DisabledDrivers},
			{"enabled_network_modes", c.EnabledNetworkModes}, {"disabled_network_modes", c.DisabledNetworkModes},
		} {
			problems = append(problems, listed(l.what, l.names, nil)...)
		}
	}
	if p := n.Pools; p != nil {
		problems = append(problems, p.problems()...)
	}
	return refuse("namespace", string(n.Name), problems)
}

func (p *PoolRules) problems() []string {
	problems := append(listed("allowed", p.Allowed, pattern), listed("denied", p.Denied, pattern)...)
	if len(p.Allowed) > 0 && len(p.Denied) > 0 {
		problems = append(problems, "its node pools are both allowed and denied; write one of the lists")
	}
	if p.Default == "" {
		return problems
	}
	switch err := ids.ValidName(p.Default); {
	case err != nil:
		problems = append(problems, fmt.Sprintf("its default node pool %q: %s", p.Default, err))
	case matches(p.Denied, p.Default):
		problems = append(problems,
			fmt.Sprintf("its default node pool %q is denied; choose another one, or do not deny it", p.Default))
	case p.Default == AllPool && len(p.Denied) > 0:
		problems = append(problems,
			fmt.Sprintf("its default node pool is %q, which holds those that are denied; choose another one", AllPool))
	}
	return problems
}

// AllowsDriver tells whether tasks of the namespace may use a driver.
func (n *Namespace) AllowsDriver(name string) bool {
	return n.Capabilities == nil ||
		in(n.Capabilities.EnabledDrivers, n.Capabilities.DisabledDrivers, name)
}

// AllowsNetworkMode tells whether groups of the namespace may use a network mode. One that is not named is the default.
func (n *Namespace) AllowsNetworkMode(mode string) bool {
	if mode == "" {
		mode = DefaultNetworkMode
	}
	return n.Capabilities == nil ||
		in(n.Capabilities.EnabledNetworkModes, n.Capabilities.DisabledNetworkModes, mode)
}

func in(enabled, disabled []string, name string) bool {
	return (len(enabled) == 0 || slices.Contains(enabled, name)) && !slices.Contains(disabled, name)
}

// Pool is the node pool of a job of the namespace that names one, or none.
func (n *Namespace) Pool(named string) string {
	switch {
	case named != "":
		return named
	case n.Pools != nil && n.Pools.Default != "":
		return n.Pools.Default
	}
	return DefaultPool
}

// AllowsPool tells whether jobs of the namespace may run in a node pool. Its default pool they may always. AllPool
// holds the nodes of every pool: where some are denied it is, too, and where some are allowed it has to be among them,
// by its name.
func (n *Namespace) AllowsPool(pool string) bool {
	switch r := n.Pools; {
	case r == nil, pool == n.Pool(""):
		return true
	case len(r.Denied) > 0:
		return pool != AllPool && !matches(r.Denied, pool)
	case r.Allowed == nil:
		return true
	case pool == AllPool:
		return slices.Contains(r.Allowed, AllPool) || slices.Contains(r.Allowed, "*")
	default:
		return matches(r.Allowed, pool)
	}
}

// AllowedPools says in words which pools jobs of the namespace may run in, for who is refused.
func (n *Namespace) AllowedPools() string {
	switch r := n.Pools; {
	case r == nil:
		return "every node pool is allowed"
	case len(r.Denied) > 0:
		return "denied are " + strings.Join(append(slices.Clone(r.Denied), AllPool), ", ")
	default:
		return "allowed are " + strings.Join(append([]string{n.Pool("")}, r.Allowed...), ", ")
	}
}

// matches tells whether one of the patterns, which were checked by pattern, is of the name.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}
