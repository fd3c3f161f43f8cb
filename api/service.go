package api

import "time"

// Service is a name under which a group or a task can be found.
type Service struct {
	Name              string            `hcl:"name"`
	Tags              []string          `hcl:"tags"`
	CanaryTags        []string          `hcl:"canary_tags"`
	EnableTagOverride bool              `hcl:"enable_tag_override"`
	PortLabel         string            `hcl:"port"`
	AddressMode       string            `hcl:"address_mode"`
	Address           string            `hcl:"address"`
	Checks            []*ServiceCheck   `hcl:"check,block"`
	CheckRestart      *CheckRestart     `hcl:"check_restart,block"`
	Connect           *ConsulConnect    `hcl:"connect,block"`
	Meta              map[string]string `hcl:"meta,map"`
	CanaryMeta        map[string]string `hcl:"canary_meta,map"`
	TaggedAddresses   map[string]string `hcl:"tagged_addresses,map"`
	TaskName          string            `hcl:"task"`
	OnUpdate          string            `hcl:"on_update"`
	Identity          *WorkloadIdentity `hcl:"identity,block"`
	Weights           *ServiceWeights   `hcl:"weights,block"`
	Provider          string            `hcl:"provider"`
	Cluster           string            `hcl:"cluster"`
	Kind              string            `hcl:"kind"`
	Namespace         string            `json:",omitempty"` // set by the server
}

// ServiceWeights are the weights of a service's instances in answers of DNS.
type ServiceWeights struct {
	Passing int `hcl:"passing"`
	Warning int `hcl:"warning"`
}

// ServiceCheck is a probe of a service.
type ServiceCheck struct {
	Name                   string              `hcl:"name"`
	Type                   string              `hcl:"type"`
	Command                string              `hcl:"command"`
	Args                   []string            `hcl:"args"`
	Path                   string              `hcl:"path"`
	Protocol               string              `hcl:"protocol"`
	PortLabel              string              `hcl:"port"`
	Expose                 bool                `hcl:"expose"`
	AddressMode            string              `hcl:"address_mode"`
	Advertise              string              `hcl:"advertise" json:",omitempty"`
	Interval               time.Duration       `hcl:"interval"`
	Timeout                time.Duration       `hcl:"timeout"`
	InitialStatus          string              `hcl:"initial_status"`
	Notes                  string              `hcl:"notes"`
	TLSServerName          string              `hcl:"tls_server_name"`
	TLSSkipVerify          bool                `hcl:"tls_skip_verify"`
	Header                 map[string][]string `hcl:"header,map"`
	Method                 string              `hcl:"method"`
	CheckRestart           *CheckRestart       `hcl:"check_restart,block"`
	GRPCService            string              `hcl:"grpc_service"`
	GRPCUseTLS             bool                `hcl:"grpc_use_tls"`
	TaskName               string              `hcl:"task"`
	SuccessBeforePassing   int                 `hcl:"success_before_passing"`
	FailuresBeforeCritical int                 `hcl:"failures_before_critical"`
	FailuresBeforeWarning  int                 `hcl:"failures_before_warning"`
	Body                   string              `hcl:"body"`
	OnUpdate               string              `hcl:"on_update"`

	DeregisterCriticalServiceAfter time.Duration `hcl:"deregister_critical_service_after" json:",omitempty"`
}

// CheckRestart restarts a task whose check fails for too long.
type CheckRestart struct {
	Limit          int            `hcl:"limit"`
	Grace          *time.Duration `hcl:"grace"`
	IgnoreWarnings bool           `hcl:"ignore_warnings"`
}

// AllocCheckStatus is the last result of one check.
type AllocCheckStatus struct {
	ID         string
	Check      string
	Group      string
	Mode       string
	Output     string
	Service    string
	Task       string
	Status     string
	StatusCode int
	Timestamp  int64 // Unix seconds
}

// ConsulServiceStatus is how a service of an allocation stands in Consul.
type ConsulServiceStatus struct {
	ID         string
	Service    string
	Task       string // that answers for it; empty: the group
	Registered bool   // the agent of Consul has it
	Reason     string // why it is not; empty: nothing stands in its way
	Since      int64  // Unix seconds: how it stands since then; 0: not known
	Tags       []string
	Address    string
	Port       int
}

// ConsulEntryStatus is how an entry of Consul's configuration stands that says what a gateway does.
type ConsulEntryStatus struct {
	Kind    string // such as ingress-gateway
	Name    string // of the gateway's service
	Written bool   // Consul has it as the job says
	Reason  string // why it has not; empty: nothing stands in its way
	Since   int64  // Unix seconds: how it stands since then, as far as the servers know; 0: not known
}

// ServiceRegistration is one instance of a service: who it is, and where.
type ServiceRegistration struct {
	ID          string
	ServiceName string
	Namespace   string
	NodeID      string
	Datacenter  string
	JobID       string
	AllocID     string
	Tags        []string
	Address     string
	Port        int
	CreateIndex uint64
	ModifyIndex uint64
}

// ServiceRegistrationListStub lists the services of a namespace.
type ServiceRegistrationListStub struct {
	Namespace string
	Services  []*ServiceRegistrationStub
}

// ServiceRegistrationStub is a service with the tags that any instance of it has.
type ServiceRegistrationStub struct {
	ServiceName string
	Tags        []string
}
