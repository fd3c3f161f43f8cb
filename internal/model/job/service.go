package job

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// Providers of services: who tells others where they are.
const (
	ProviderServers = "nomad" // the servers themselves
	// ProviderConsul is an agent of Consul on the node: there the node registers them.
	ProviderConsul = "consul"
)

// Ways to the address of a service or of a check.
const (
	AddressAuto = "auto" // what address says, else as AddressHost
	AddressHost = "host" // that of the node, and the port there
	// AddressAlloc is that of the alloc on its own network, and the port that its task listens on.
	AddressAlloc = "alloc"
	// AddressAllocIPv6 is the same with its IPv6 address.
	AddressAllocIPv6 = "alloc_ipv6"
)

// WithinAlloc reports whether a way leads to an alloc on its own network.
func WithinAlloc(mode string) bool { return mode == AddressAlloc || mode == AddressAllocIPv6 }

// Types of checks.
const (
	CheckHTTP = "http"
	CheckTCP  = "tcp"
	CheckGRPC = "grpc"
	// CheckScript runs a command in a task: it passes when that ends with code 0.
	CheckScript = "script"
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
	CanaryTags   []string        `cbor:",omitempty"` // instead of Tags, of a canary; empty: it has those
	TaskName     string          `cbor:",omitempty"` // of a group's service: the task that answers for it
	OnUpdate     string          `cbor:",omitempty"`
	CheckRestart *CheckRestart   `cbor:",omitempty"`
	Checks       []*ServiceCheck `cbor:",omitempty"`
	// Identity says what service it is to who keeps a catalog of them.
	Identity *WorkloadIdentity `cbor:",omitempty"`

	// Of services of Consul.
	EnableTagOverride bool              `cbor:",omitempty"` // others may change the tags there
	Meta              map[string]string `cbor:",omitempty"`
	CanaryMeta        map[string]string `cbor:",omitempty"` // instead of Meta, of a canary; empty: it has that
	TaggedAddresses   map[string]string `cbor:",omitempty"` // host or host:port, by name
	Weights           *ServiceWeights   `cbor:",omitempty"`
	Kind              string            `cbor:",omitempty"`
	Connect           *Connect          `cbor:",omitempty"` // its part in the mesh; nil: none
}

// ServiceWeights are those of an instance in Consul's answers of DNS.
type ServiceWeights struct {
	Passing int
	Warning int
}

// ServiceCheck asks a service whether it works.
type ServiceCheck struct {
	Name        string
	Type        string
	PortLabel   string `cbor:",omitempty"` // empty: that of the service
	AddressMode string `cbor:",omitempty"` // empty: that of the service
	// TaskName is the task that check_restart restarts, and that a script runs in; empty: that of the service.
	TaskName string `cbor:",omitempty"`
	OnUpdate string `cbor:",omitempty"`
	Interval time.Duration
	Timeout  time.Duration

	InitialStatus          string        `cbor:",omitempty"`
	SuccessBeforePassing   int           `cbor:",omitempty"`
	FailuresBeforeCritical int           `cbor:",omitempty"`
	CheckRestart           *CheckRestart `cbor:",omitempty"`

	// Of services of Consul.
	FailuresBeforeWarning int    `cbor:",omitempty"`
	Notes                 string `cbor:",omitempty"`
	Expose                bool   `cbor:",omitempty"` // past the mesh: by a path that the proxy lets through
	// DeregisterCriticalServiceAfter: Consul itself takes a service out that is critical for so long; 0: it does not.
	DeregisterCriticalServiceAfter time.Duration `cbor:",omitempty"`

	// Of checks by HTTP.
	Path          string              `cbor:",omitempty"`
	Protocol      string              `cbor:",omitempty"` // http or https
	Method        string              `cbor:",omitempty"`
	Header        map[string][]string `cbor:",omitempty"`
	Body          string              `cbor:",omitempty"`
	TLSServerName string              `cbor:",omitempty"`
	TLSSkipVerify bool                `cbor:",omitempty"`

	// Of scripts. ${…} are filled in as in the task's own config.
	Command string   `cbor:",omitempty"`
	Args    []string `cbor:",omitempty"`

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

// SchemaScripts is the number of the cluster from which on checks may be scripts, canaries have tags of their own, and
// allocs are found by IPv6.
const SchemaScripts = 14

// SchemaConsul is the number of the cluster from which on services may be Consul's.
const SchemaConsul = 15

// SchemaMesh is the number of the cluster from which on services may be members of Consul's mesh: an older server would
// drop that, and run their tasks without a proxy.
const SchemaMesh = 16

// NeedsOfServices is the schema that the members of the job's services need beyond what all with services know.
func (j *Job) NeedsOfServices() (needs uint64) {
	further := func(c *ServiceCheck) bool { return c.Type == CheckScript || c.AddressMode == AddressAllocIPv6 }
	if slices.ContainsFunc(j.TaskGroups, (*TaskGroup).AsksConsul) {
		needs = SchemaConsul
	}
	for _, g := range j.TaskGroups {
		for _, s := range g.AllServices() {
			if len(s.CanaryTags) > 0 || s.AddressMode == AddressAllocIPv6 || slices.ContainsFunc(s.Checks, further) {
				needs = max(needs, SchemaScripts)
			}
			if s.Identity != nil {
				needs = max(needs, SchemaServiceIdentities)
			}
			if s.Connect != nil || slices.ContainsFunc(s.Checks, (*ServiceCheck).leaves) {
				needs = max(needs, SchemaMesh)
			}
		}
	}
	return needs
}

// leaves reports whether a check has its service taken out: servers that know no mesh would drop that.
func (c *ServiceCheck) leaves() bool { return c.DeregisterCriticalServiceAfter > 0 }

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

// AsksConsul reports whether the group or any task of it is to be found in Consul.
func (g *TaskGroup) AsksConsul() bool {
	for _, s := range g.AllServices() {
		if s.Provider == ProviderConsul {
			return true
		}
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
