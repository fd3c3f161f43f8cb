package jobrules

import (
	"fmt"
	"slices"

	"berth/api"
	"berth/internal/base/pattern"
	"berth/internal/httpapi/convert/networks"
	"berth/internal/httpapi/jobrules/references"
	"berth/internal/model/network"
)

// sharedEtc are drivers whose tasks see the node's own /etc and name.
var sharedEtc = []string{"raw_exec"}

func (c *checker) networks(at string, g *api.TaskGroup) {
	if len(g.Networks) > 1 {
		c.addf("%s: only one network block is allowed, there are %d", at, len(g.Networks))
	}
	labels, static := map[string]bool{}, map[string]string{}
	for _, n := range g.Networks {
		if n == nil {
			continue
		}
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			if p.Label == "" || labels[p.Label] {
				c.addf("%s: port label %q is empty or used twice", at, p.Label)
			}
			if why := badLabel(p.Label); why != "" {
				c.addf("%s: port label %q: %s", at, shorten(p.Label), why)
			}
			labels[p.Label] = true
			c.port(at, n.Mode, p)
		}
		for _, p := range n.ReservedPorts {
			where := fmt.Sprintf("%d of %q", p.Value, networks.HostNetwork(p.HostNetwork))
			if other, taken := static[where]; taken {
				c.addf("%s: static port %d is asked for by %q and %q", at, p.Value, other, p.Label)
			}
			static[where] = p.Label
		}
		if why := network.BadMode(n.Mode); why != "" {
			c.addf("%s: network %s", at, why)
		}
		if n.CNI != nil {
			if why := network.BadCNI(n.Mode, n.CNI.Args); why != "" {
				c.addf("%s: network %s", at, why)
			}
		}
		c.resolving(at, g, n)
	}
}

// portLabel is what a port may be called: its label is part of names of variables.
var portLabel = pattern.Of(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,62}$`)

// badLabel says what is wrong with the label of a port; empty: nothing. An empty one is refused beside this.
func badLabel(label string) string {
	switch {
	case label == "":
		return ""
	case numeric().MatchString(label):
		return "a service would take it for a number; write a letter in it"
	case !portLabel().MatchString(label):
		return "write at most 63 letters, digits, _, - and ., and none of - and . first"
	}
	return ""
}

func (c *checker) port(at, mode string, p api.Port) {
	if p.Value < 0 || p.Value > 65535 {
		c.addf("%s: port %q: %d is not between 0 and 65535", at, p.Label, p.Value)
	}
	if p.To < -1 || p.To > 65535 {
		c.addf("%s: port %q: to must be a port, or -1 for the same as outside, is %d", at, p.Label, p.To)
	}
	host := mode == "" || mode == network.ModeHost
	switch {
	case !p.IgnoreCollision:
	case p.Value == 0:
		c.addf("%s: port %q: ignore_collision is for a port that is chosen by the job; write static, or remove it", at,
			p.Label)
	case !host:
		c.addf("%s: port %q: ignore_collision has a meaning on the host's network alone, where the programs share the "+
			"port (SO_REUSEPORT); remove it, or write mode = \"host\"", at, p.Label)
	}
	switch mode {
	case "", network.ModeHost:
		if p.To > 0 {
			c.addf("%s: port %q: to = %d has no meaning on the host's network, where the task listens on the port "+
				"itself; remove it, or write mode = \"bridge\"", at, p.Label, p.To)
		}
	case network.ModeNone:
		c.addf("%s: port %q: nothing reaches a group with network mode \"none\"; remove it, or write "+
			"mode = \"bridge\"", at, p.Label)
	}
}

// resolving checks the names of hosts.
func (c *checker) resolving(at string, g *api.TaskGroup, n *api.NetworkResource) {
	for _, problem := range network.BadDNS(networks.DNS(n.DNS)) {
		c.addf("%s: network %s", at, problem)
	}
	if n.Hostname != "" && !references.In(n.Hostname) {
		if why := network.BadHostname(n.Hostname); why != "" {
			c.addf("%s: network hostname %q: %s", at, shorten(n.Hostname), why)
		}
	}
	if n.Hostname == "" && n.DNS == nil {
		return
	}
	for _, t := range g.Tasks {
		if t != nil && slices.Contains(sharedEtc, t.Driver) {
			c.addf("%s: network hostname and dns: task %q of driver %q sees the node's own name and /etc; leave both "+
				"out, or use driver exec", at, t.Name, t.Driver)
		}
	}
}
