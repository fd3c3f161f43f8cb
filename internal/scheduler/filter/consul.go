package filter

import (
	"berth/internal/model/consul"
	"berth/internal/model/node"
)

// Consul passes nodes that can register services in Consul, for groups that have some to be found there.
type Consul struct{}

// Prepare implements Filter.
func (Consul) Prepare(r *Request) bool { return r.Group.AsksConsul() }

// Check implements Filter.
func (Consul) Check(n *node.Node) string {
	if n.Attributes[consul.AttributeServices] == "" {
		return "missing consul"
	}
	return ""
}

// Explain implements Filter.
func (Consul) Explain(*node.Node) (string, string) {
	return "a service has provider = \"consul\", as one without provider has, and the node's agent speaks to no Consul",
		"write provider = \"nomad\" in its services, or consul {} in the agent's configuration"
}
