package job

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// ProviderServers is the provider of services that the servers themselves know and tell: the only one that is built.
const ProviderServers = "nomad"

// Ways to the address of a service or of a check.
const (
	AddressAuto = "auto" // what address says, else as AddressHost
	AddressHost = "host" // that of the node, and the port there
	// AddressAlloc is that of the alloc on its own network, and the port that its task listens on.
	AddressAlloc = "alloc"
)

// Types of checks.
const (
	CheckHTTP = "http"
	CheckTCP  = "tcp"
	CheckGRPC = "grpc"
)

// What a failing check says about the health of an alloc.
const (
	OnUpdateHealthy        = "require_healthy"
	OnUpdateIgnoreWarnings = "ignore_warnings"
	OnUpdateIgnore         = "ignore"
)

// Service is a name under which a group or a task can be found.
type Service struct {
	Name         string // may name facts of the alloc and its node by ${…}
	Provider     string
	PortLabel    string `cbor:",omitempty"`
	AddressMode  string
	Address      string          `cbor:",omitempty"`
	Tags         []string        `cbor:",omitempty"`
	TaskName     string          `cbor:",omitempty"` // of a group's service: the task that answers for it
	OnUpdate     string          `cbor:",omitempty"`
	CheckRestart *CheckRestart   `cbor:",omitempty"`
	Checks       []*ServiceCheck `cbor:",omitempty"`
}

// ServiceCheck asks a service whether it works.
type ServiceCheck struct {
	Name        string
	Type        string
	PortLabel   string `cbor:",omitempty"` // empty: that of the service
	AddressMode string `cbor:",omitempty"` // empty: that of the service
	TaskName    string `cbor:",omitempty"` // the task that check_restart restarts; empty: that of the service
	OnUpdate    string `cbor:",omitempty"`
	Interval    time.Duration
	Timeout     time.Duration

	InitialStatus          string        `cbor:",omitempty"`
	SuccessBeforePassing   int           `cbor:",omitempty"`
	FailuresBeforeCritical int           `cbor:",omitempty"`
	CheckRestart           *CheckRestart `cbor:",omitempty"`

	// Of checks by HTTP.
	Path          string              `cbor:",omitempty"`
	Protocol      string              `cbor:",omitempty"` // http or https
	Method        string              `cbor:",omitempty"`
	Header        map[string][]string `cbor:",omitempty"`
	Body          string              `cbor:",omitempty"`
	TLSServerName string              `cbor:",omitempty"`
	TLSSkipVerify bool                `cbor:",omitempty"`

	// Of checks by the gRPC health checking protocol.
	GRPCService string `cbor:",omitempty"`
	GRPCUseTLS  bool   `cbor:",omitempty"`
}

// CheckRestart restarts a task whose check fails.
type CheckRestart struct {
	Limit          int           // so many failures in a row; 0: it does not
	Grace          time.Duration // after a start of the task failures do not count for so long
	IgnoreWarnings bool          `cbor:",omitempty"`
}

// AllServices yields what a group and its tasks are found by, with the task that each belongs to; nil: the group.
func (g *TaskGroup) AllServices() iter.Seq2[*Task, *Service] {
	return func(yield func(*Task, *Service) bool) {
		for _, s := range g.Services {
			if !yield(nil, s) {
				return
			}
		}
		for _, t := range g.Tasks {
			for _, s := range t.Services {
				if !yield(t, s) {
					return
				}
			}
		}
	}
}

// HasServices reports whether the group or any task of it can be found.
func (g *TaskGroup) HasServices() bool {
	for range g.AllServices() {
		return true
	}
	return false
}

// HasServices reports whether any group or task of the job can be found.
func (j *Job) HasServices() bool { return slices.ContainsFunc(j.TaskGroups, (*TaskGroup).HasServices) }

// AskHealth reports whether checks decide about the health of the group's allocs.
func (g *TaskGroup) AskHealth() bool {
	if g.Update == nil || g.Update.HealthCheck != HealthByChecks {
		return false
	}
	for _, s := range g.AllServices() {
		for _, c := range s.Checks {
			if c.Counts(s) {
				return true
			}
		}
	}
	return false
}

// HealthByChecks is the health_check of groups whose allocs are healthy when their checks pass, too.
const HealthByChecks = "checks"

// Counts reports whether an alloc is healthy only while the check passes.
func (c *ServiceCheck) Counts(of *Service) bool {
	return cmp.Or(c.OnUpdate, of.OnUpdate, OnUpdateHealthy) != OnUpdateIgnore
}
