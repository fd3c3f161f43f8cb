package events

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// topic is a kind of objects that events are about.
type topic struct {
	name string
	// types are what events of it are called by the command that made the change; others are called by what became of
	// the object.
	types            map[string]string
	written, removed string
}

const planned = "PlanResult"

// kinds are the topics by the table whose changes they tell. What follows from changes of other tables, services and
// how plugins are, has its topic under its own name.
var kinds = map[string]*topic{
	state.Jobs: {
		name:    wire.TopicJob,
		written: "JobRegistered",
		removed: "JobDeregistered",
		types:   map[string]string{"job-deregister": "JobDeregistered"},
	},
	state.Evals: {
		name:    wire.TopicEval,
		written: "EvaluationUpdated",
		removed: "EvaluationDeleted",
		types: map[string]string{
			"job-register":       "JobRegistered",
			"job-deregister":     "JobDeregistered",
			"plan-apply":         planned,
			"alloc-migrate":      "AllocationUpdateDesiredStatus",
			"node-status":        "NodeStreamEvent",
			"deployment-promote": "DeploymentPromotion",
		},
	},
	state.Allocs: {
		name:    wire.TopicAlloc,
		written: "AllocationUpdated",
		removed: "AllocationDeleted",
		types: map[string]string{
			"plan-apply":        planned,
			"alloc-migrate":     "AllocationUpdateDesiredStatus",
			"deployment-health": "DeploymentAllocHealth",
			"alloc-health":      "DeploymentAllocHealth",
		},
	},
	state.Deployments: {
		name:    wire.TopicDeployment,
		written: "DeploymentStatusUpdate",
		removed: "DeploymentDeleted",
		types: map[string]string{
			"plan-apply":         planned,
			"deployment-promote": "DeploymentPromotion",
			"deployment-health":  "DeploymentAllocHealth",
			"alloc-health":       "DeploymentAllocHealth",
		},
	},
	state.Nodes: {
		name:    wire.TopicNode,
		written: "NodeStreamEvent",
		removed: "NodeDeregistration",
		types: map[string]string{
			"node-register":    "NodeRegistration",
			"session-register": "NodeRegistration",
			"node-eligibility": "NodeEligibility",
		},
	},
	state.NodePools: {
		name:    wire.TopicNodePool,
		written: "NodePoolUpserted",
		removed: "NodePoolDeleted",
	},
	state.Volumes: {
		name:    wire.TopicVolume,
		written: "CSIVolumeRegistered",
		removed: "CSIVolumeDeregistered",
		types:   map[string]string{"plan-apply": "CSIVolumeClaim"},
	},
	state.Claims: {
		name:    wire.TopicClaim,
		written: "CSIVolumeClaim",
		removed: "CSIVolumeClaimEnded",
	},
	state.Plugins: {
		name:    wire.TopicPlugin,
		written: "CSIPluginUpdated",
		removed: "CSIPluginDeleted",
	},
	state.ACLTokens: {
		name:    wire.TopicACLToken,
		written: "ACLTokenUpserted",
		removed: "ACLTokenDeleted",
	},
	state.ACLPolicies: {
		name:    wire.TopicACLPolicy,
		written: "ACLPolicyUpserted",
		removed: "ACLPolicyDeleted",
	},
	state.ACLRoles: {
		name:    wire.TopicACLRole,
		written: "ACLRoleUpserted",
		removed: "ACLRoleDeleted",
	},
	wire.TopicService: {
		name:    wire.TopicService,
		written: "ServiceRegistration",
		removed: "ServiceDeregistration",
	},
}

// called is the type of an event.
func (t *topic) called(cause string, removed bool) string {
	switch {
	case removed:
		return t.removed
	case t.types[cause] != "":
		return t.types[cause]
	}
	return t.written
}

// filter is what a caller asks for.
type filter struct {
	namespace ids.Namespace
	keys      map[string][]string // by topic, by its public name
}

// wants reports whether an event was asked for. What has no namespace is in all of them.
func (f filter) wants(e *wire.Event) bool {
	if f.namespace != wire.AllNamespaces && e.Namespace != "" && e.Namespace != f.namespace {
		return false
	}
	for _, name := range []string{e.Topic, wire.TopicAll} {
		keys, asked := f.keys[name]
		if asked && slices.ContainsFunc(keys, func(k string) bool {
			return k == "*" || k == e.Key || slices.Contains(e.Keys, k)
		}) {
			return true
		}
	}
	return false
}
