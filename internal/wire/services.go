package wire

import (
	"berth/internal/base/ids"
	"berth/internal/derive/service"
)

// Methods over services, served by the server half.
var (
	ServiceList   = Unary[Query, List[*service.Registration]]("Service.List")
	ServiceGet    = Unary[ServiceGetRequest, List[*service.Registration]]("Service.Get")
	ServiceDelete = Unary[ServiceDeleteRequest, Written]("Service.Delete")
	JobServices   = Unary[Ref[ids.Job], List[*service.Registration]]("Job.Services")
	AllocServices = Unary[Ref[ids.Alloc], List[*service.Registration]]("Alloc.Services")
	JobConsul     = Unary[JobConsulRequest, JobConsulReply]("Job.Consul")
)

// ServiceGetRequest asks who is found under a name.
type ServiceGetRequest struct {
	Query
	Name string
	// Choose so many of them by Key; 0: all.
	Choose int
	Key    string
	// Consul: those that are to be found there are asked for; whether they are know their nodes.
	Consul bool
}

// ServiceDeleteRequest takes a registration away.
type ServiceDeleteRequest struct {
	Namespace ids.Namespace
	Name      string
	ID        string
	By        string // as the API knows them
}

// JobConsulRequest asks the server that leads how what a job's gateways do stands in Consul: it alone writes that.
type JobConsulRequest struct {
	Namespace ids.Namespace
	Job       ids.Job
}

// JobConsulReply has the entries of Consul's configuration that a job's gateways need, in their order.
type JobConsulReply struct{ Entries []ConsulEntry }

// ConsulEntry is how one stands.
type ConsulEntry struct {
	Kind, Name string
	Why        string // Consul does not have it as the job says; empty: it has
	Since      int64  // Unix seconds: how it stands since then; 0: not known
}

// AllocChecksReply is what the checks of an alloc's services have found, as its job lists them.
type AllocChecksReply struct {
	AllocName string
	Checks    []CheckStatus
	Consul    []ConsulStatus // its services there, ordered by their ids
}

// ConsulStatus is how a service of an alloc stands in Consul.
type ConsulStatus struct {
	ID         string
	Service    string
	Task       string // that answers for it; empty: the group
	Registered bool   // the agent of Consul has it
	Why        string // it is not, or was not; empty: nothing stands in its way
	Since      int64  // Unix seconds: how it stands since then; 0: not known
	Tags       []string
	Address    string
	Port       int
}

// CheckStatus is what a check has found last.
type CheckStatus struct {
	ID         string
	Check      string
	Service    string
	Task       string // that the service belongs to; empty: the group
	Mode       string // healthiness or readiness
	Status     string // pending, success or failure
	Output     string
	StatusCode int   // of HTTP; 0: none
	At         int64 // Unix seconds; 0: it has not been asked yet
}
