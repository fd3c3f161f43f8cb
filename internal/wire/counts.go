package wire

import "berth/internal/base/ids"

// SystemCounts counts what the servers' state holds, for metrics.
var SystemCounts = Unary[Query, CountsReply]("System.Counts")

// CountsReply is how much there is of what.
type CountsReply struct {
	Meta
	Jobs    []JobCount
	Nodes   []NodeCount
	Volumes []VolumeCount
	Plugins []PluginCount
	Claims  map[string]int // by state
	Evals   map[string]int // by status
}

// JobCount is a job with its allocs by group.
type JobCount struct {
	Namespace    ids.Namespace
	Job          ids.Job
	Type, Status string
	Groups       map[string]GroupSummary
}

// NodeCount is a node with its allocs by client status, and what of it they are given.
type NodeCount struct {
	ID                                           ids.Node
	Name, Datacenter, Class, Status, Eligibility string
	Allocs                                       map[string]int
	Given, Left                                  Amount
	Orphans                                      int
}

// Amount is of what a node gives.
type Amount struct{ CPUShares, MemoryMB, DiskMB int64 }

// VolumeCount is the volumes of a plugin in a phase.
type VolumeCount struct {
	Plugin ids.Plugin
	Phase  string
	Count  int
	Bytes  int64 // of their capacities
}

// PluginCount is how many instances of a plugin there should be, and how many are well.
type PluginCount struct {
	ID                                      ids.Plugin
	ControllersHealthy, ControllersExpected int
	NodesHealthy, NodesExpected             int
}
