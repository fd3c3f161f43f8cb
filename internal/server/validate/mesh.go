package validate

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// proxyNeeds are the attributes that tasks of proxies ask for, with what is missing where no node has one, and the way
// out.
var proxyNeeds = []struct{ attribute, missing, hint string }{
	{
		consul.AttributeProgram, "Consul's own program, which is the proxy",
		"put consul into the PATH of the nodes' agents, or take meta connect.proxy out, for Envoy",
	},
	{
		consul.AttributeEnvoy, "Envoy",
		"put envoy into the PATH of the nodes' agents, or write sidecar_task { driver = \"docker\" }",
	},
	{
		consul.AttributeGRPC, "a Consul that tells Envoy what to do",
		"write ports { grpc = 8502 } in the configuration of Consul's agents, or meta = { \"connect.proxy\" = " +
			"\"builtin\" } in the job",
	},
}

// equipped refuses a proxy for which every ready node with Consul lacks something. Where no such node is, nobody can
// tell, and the job waits.
func equipped(s *state.Snap, j *job.Job, g *job.TaskGroup, t *job.Task) error {
	if !t.Kind.Proxies() {
		return nil
	}
	for _, need := range proxyNeeds {
		asked := false
		for _, c := range t.Constraints {
			asked = asked || c.LTarget == "${attr."+need.attribute+"}"
		}
		if !asked || !lacking(s, need.attribute) {
			continue
		}
		return fault.WithHint(fault.New(fault.Invalid, "register",
			fmt.Sprintf("job %q: group %q: task %q", j.ID, g.Name, t.Name),
			"no ready node has "+need.missing), need.hint)
	}
	return nil
}

// lacking tells whether there are ready nodes with Consul, and none of them has an attribute.
func lacking(s *state.Snap, attribute string) bool {
	there := false
	for n := range s.Nodes(nil, "") {
		if !n.Ready() || n.Attributes["consul.version"] == "" {
			continue // its Consul was not reached, and it does not know yet
		}
		if n.Attributes[attribute] != "" {
			return false
		}
		there = true
	}
	return there
}
