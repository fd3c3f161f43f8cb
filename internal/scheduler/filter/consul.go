package filter

import (
	"slices"

	"berth/internal/model/consul"
	"berth/internal/model/node"
	"berth/internal/model/workload"
)

// Consul passes nodes that speak to Consul, for groups that are to be found there, or whose templates read it.
type Consul struct{}

// Prepare implements Filter.
func (Consul) Prepare(r *Request) bool {
	return r.Group.AsksConsul() || slices.ContainsFunc(r.Group.Tasks, workload.ReadsConsul)
}

// Check implements Filter.
func (Consul) Check(n *node.Node) string {
	if n.Attributes[consul.AttributeServices] == "" {
		return "missing consul"
	}
	return ""
}

// Explain implements Filter.
func (Consul) Explain(*node.Node) (string, string) {
	return "a service has provider = \"consul\", as one without provider has, or a template reads Consul, and the " +
			"node's agent speaks to no Consul",
		"write provider = \"nomad\" in its services and nomadVar in templates, or consul {} in the agent's " +
			"configuration"
}
