package permissions

import (
	"slices"

	"berth/internal/wire"
)

// quiet are methods that change nothing and show nothing of what is in tasks, beside those that any server may answer
// by what it has.
var quiet = methodNames(wire.JobPlan, wire.JobValidate, wire.AllocStats, wire.AllocChecks, wire.AllocOrphan,
	wire.JobConsul,
	wire.AgentHostStats, wire.AgentMeta, wire.AgentMonitor, wire.SystemStatus, wire.EventStream)

// Reads reports whether a call changes nothing, nor shows what is in tasks. What is not known to is taken to do so.
func Reads(method string, req any) bool {
	_, read := req.(interface{ AnyServer() bool })
	return read || slices.Contains(quiet, method)
}

func methodNames(methods ...named) []string {
	var out []string
	for _, m := range methods {
		out = append(out, m.Name())
	}
	return out
}
