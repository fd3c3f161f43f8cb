package job

import (
	"slices"
	"strings"

	"berth/internal/model/device"
)

// SchemaCNI is the number of the cluster from which on groups may ask for networks of CNI plugins.
const SchemaCNI = 14

// SchemaSharedPorts is the number of the cluster from which on allocs of a job may share static ports: a server before
// it would take the plan for a collision.
const SchemaSharedPorts = 15

// SchemaCallsAtOnce is the number of the cluster from which on plugins say how many calls they take at once.
const SchemaCallsAtOnce = 17

// Schema is the lowest schema of a cluster whose servers and nodes all know what the job asks for: older ones would
// take it for another job. Of what needs 12 or less, those who brought it tell.
func (j *Job) Schema() uint64 {
	needs := max(j.NeedsOfLaunches(), j.NeedsOfServices())
	if j.NeedsBatches() {
		needs = max(needs, SchemaBatches)
	}
	if j.NeedsDisconnect() {
		needs = max(needs, SchemaDisconnect)
	}
	if j.BringsFiles() {
		needs = max(needs, SchemaFiles)
	}
	if j.HasPolicies() {
		needs = max(needs, SchemaScaling)
	}
	if j.hasSecrets() {
		needs = max(needs, SchemaSecrets)
	}
	if j.NeedsDevices() {
		needs = max(needs, device.Schema)
	}
	if j.AsksForCores() {
		needs = max(needs, SchemaCores)
	}
	if j.boundsCalls() {
		needs = max(needs, SchemaCallsAtOnce)
	}
	for _, g := range j.TaskGroups {
		for _, n := range g.Networks {
			if n.CNI != nil || strings.HasPrefix(n.Mode, "cni/") {
				needs = max(needs, SchemaCNI)
			}
			if slices.ContainsFunc(n.ReservedPorts, func(p Port) bool { return p.IgnoreCollision }) {
				needs = max(needs, SchemaSharedPorts)
			}
		}
	}
	return needs
}

// boundsCalls reports a job with a plugin that says how many calls it takes at once.
func (j *Job) boundsCalls() bool {
	return slices.ContainsFunc(j.TaskGroups, func(g *TaskGroup) bool {
		return slices.ContainsFunc(g.Tasks, func(t *Task) bool {
			return t.CSIPluginConfig != nil && t.CSIPluginConfig.MaxParallel != 0
		})
	})
}

// NeedsDevices reports a job that older servers would place anywhere, without what it asks for.
func (j *Job) NeedsDevices() bool {
	return slices.ContainsFunc(j.TaskGroups, func(g *TaskGroup) bool { return g.WantsDevices() })
}

// WantsDevices reports a group of which a task asks for devices.
func (g *TaskGroup) WantsDevices() bool {
	return slices.ContainsFunc(g.Tasks, func(t *Task) bool {
		return t.Resources != nil && len(t.Resources.Devices) > 0
	})
}
