// Package endpoint owns the answers to the wire's methods: those about jobs, evaluations, allocs and the system itself,
// and the endpoints of nodes and of storage. Only package server constructs it.
package endpoint

import (
	"context"
	"log/slog"

	"berth/internal/model/acl"
	"berth/internal/model/variable"
	"berth/internal/model/workload"
	"berth/internal/server/controllers"
	"berth/internal/server/endpoint/acls"
	"berth/internal/server/endpoint/deployments"
	"berth/internal/server/endpoint/events"
	"berth/internal/server/endpoint/joining"
	"berth/internal/server/endpoint/launches"
	"berth/internal/server/endpoint/nodes"
	"berth/internal/server/endpoint/operator"
	"berth/internal/server/endpoint/orphans"
	"berth/internal/server/endpoint/partitions"
	"berth/internal/server/endpoint/scaling"
	"berth/internal/server/endpoint/services"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/endpoint/sources"
	"berth/internal/server/endpoint/storage"
	"berth/internal/server/endpoint/variables"
	"berth/internal/server/endpoint/workloads"
	"berth/internal/server/fsm"
	"berth/internal/server/saved"
	"berth/internal/server/state"
	"berth/internal/server/validate"
	"berth/internal/wire"
)

// Planner makes dry runs of the scheduler.
type Planner interface {
	DryRun(ctx context.Context, req *wire.JobPlanRequest) (*wire.JobPlanReply, error)
}

// Collector forgets at once what is over.
type Collector interface {
	Force(ctx context.Context) (uint64, error)
}

// Cluster is what endpoints ask of the server around them.
type Cluster interface {
	serving.Cluster
	Status() *wire.SystemStatusReply
}

// Config names what the endpoints stand on.
type Config struct {
	Store         *state.Store
	Proposer      fsm.Proposer
	Cluster       Cluster
	Heartbeats    nodes.Heartbeats
	Planner       Planner
	Collector     Collector
	Controllers   *controllers.Dispatcher
	Nodes         controllers.Nodes
	Secrets       storage.Secrets
	Restorer      operator.Restorer
	Keyring       saved.Secrets
	Keys          operator.Keys
	Authority     joining.Authority
	ResetFile     string   // of access control lists
	TokenLifetime acl.Life // of tokens of access control lists that expire
	Servers       joining.Servers
	Wraps         joining.Wraps
	Variables     variables.Secrets
	VariableMost  variable.Bounds
	Locks         variables.Locks
	Identities    workloads.Config // all but its base
	Entries       services.Entries
	// ForConsul are the identities for Consul of those whose job says none.
	ForConsul workload.Meant
	Log       *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct {
	cfg       Config
	base      serving.Base
	parts     *partitions.Endpoints
	services  *services.Endpoints
	deploys   *deployments.Endpoints
	nodes     *nodes.Endpoints
	orphans   *orphans.Endpoints
	storage   *storage.Endpoints
	operator  *operator.Endpoints
	joining   *joining.Endpoints
	acls      *acls.Endpoints
	variables *variables.Endpoints
	workloads *workloads.Endpoints
}

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints {
	base := serving.Base{Store: cfg.Store, Cluster: cfg.Cluster}
	cfg.Identities.Base = base
	return &Endpoints{
		cfg:       cfg,
		base:      base,
		workloads: workloads.New(cfg.Identities),
		nodes: nodes.New(nodes.Config{
			Base:        base,
			Proposer:    cfg.Proposer,
			Heartbeats:  cfg.Heartbeats,
			Controllers: cfg.Controllers,
			Secrets:     cfg.Secrets,
			Log:         cfg.Log,
		}),
		variables: variables.New(variables.Config{
			Base:     base,
			Proposer: cfg.Proposer,
			Secrets:  cfg.Variables,
			Most:     cfg.VariableMost,
			Locks:    cfg.Locks,
			Log:      cfg.Log,
		}),
		services: services.New(services.Config{
			Base:     base,
			Proposer: cfg.Proposer,
			Entries:  cfg.Entries,
			Log:      cfg.Log,
		}),
		deploys: deployments.New(deployments.Config{Base: base, Proposer: cfg.Proposer, Log: cfg.Log}),
		parts: partitions.New(partitions.Config{
			Base:     base,
			Proposer: cfg.Proposer,
			Log:      cfg.Log,
		}),
		orphans: orphans.New(orphans.Config{
			Base:     base,
			Proposer: cfg.Proposer,
			Nodes:    cfg.Nodes,
			Log:      cfg.Log,
		}),
		storage: storage.New(storage.Config{
			Base:        base,
			Proposer:    cfg.Proposer,
			Controllers: cfg.Controllers,
			Nodes:       cfg.Nodes,
			Secrets:     cfg.Secrets,
			Log:         cfg.Log,
		}),
		operator: operator.New(operator.Config{
			Base:     base,
			Proposer: cfg.Proposer,
			Servers:  cfg.Restorer,
			Secrets:  cfg.Keyring,
			Keys:     cfg.Keys,
			Log:      cfg.Log,
		}),
		joining: joining.New(joining.Config{
			Base:      base,
			Proposer:  cfg.Proposer,
			Authority: cfg.Authority,
			Servers:   cfg.Servers,
			Wraps:     cfg.Wraps,
			Log:       cfg.Log,
		}),
		acls: acls.New(acls.Config{
			Base:      base,
			Proposer:  cfg.Proposer,
			ResetFile: cfg.ResetFile,
			Lifetime:  cfg.TokenLifetime,
			Log:       cfg.Log,
		}),
	}
}

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.base, s, wire.JobRegister, e.jobSubmitted)
	serving.Unary(e.base, s, wire.JobPlan, e.jobPlan)
	serving.Unary(e.base, s, wire.JobValidate, e.jobValidate)
	serving.Unary(e.base, s, wire.JobDeregister, e.jobDeregister)
	serving.Unary(e.base, s, wire.JobStart, e.jobStart)
	serving.Unary(e.base, s, wire.JobEvaluate, e.jobEvaluate)
	serving.Unary(e.base, s, wire.JobGet, e.jobGet)
	serving.Unary(e.base, s, wire.JobList, e.jobList)
	serving.Unary(e.base, s, wire.JobVersions, e.jobVersions)
	serving.Unary(e.base, s, wire.JobSubmission, e.jobSubmission)
	serving.Unary(e.base, s, wire.JobAllocs, e.jobAllocs)
	serving.Unary(e.base, s, wire.JobRollout, e.jobRollout)
	serving.Unary(e.base, s, wire.JobEvals, e.jobEvals)
	serving.Unary(e.base, s, wire.EvalGet, e.evalGet)
	serving.Unary(e.base, s, wire.EvalList, e.evalList)
	serving.Unary(e.base, s, wire.EvalAllocs, e.evalAllocs)
	serving.Unary(e.base, s, wire.AllocGet, e.allocGet)
	serving.Unary(e.base, s, wire.AllocList, e.allocList)
	serving.Unary(e.base, s, wire.AllocStop, e.allocStop)
	serving.Unary(e.base, s, wire.NodeAllocList, e.nodeAllocList)
	serving.Unary(e.base, s, wire.DeploymentAllocs, e.deploymentAllocs)
	serving.Unary(e.base, s, wire.JobRevert, e.jobRevert)
	serving.Unary(e.base, s, wire.JobStable, e.jobStable)
	serving.Unary(e.base, s, wire.JobTag, e.jobTag)
	serving.Unary(e.base, s, wire.JobUntag, e.jobUntag)
	e.parts.Register(s)
	e.services.Register(s)
	e.deploys.Register(s)
	e.nodes.Register(s)
	e.orphans.Register(s)
	e.storage.Register(s)
	e.operator.Register(s)
	e.joining.Register(s)
	e.acls.Register(s)
	e.variables.Register(s)
	e.workloads.Register(s)
	launches.New(launches.Config{Base: e.base, Proposer: e.cfg.Proposer}).Register(s)
	scaling.New(scaling.Config{Base: e.base, Proposer: e.cfg.Proposer}).Register(s)
	sources.New(sources.Config{Base: e.base, Secrets: e.cfg.Variables}).Register(s)
	events.Register(e.base, s)
	serving.Unary(e.base, s, wire.SystemGC, e.systemGC)
	serving.Unary(e.base, s, wire.SystemSearch, e.search)
	serving.Unary(e.base, s, wire.SigningKeys, e.signingKeys)
	serving.Unary(e.base, s, wire.SystemCounts, e.counts)
	serving.Unary(e.base, s, wire.PersonAllowed, serving.Allowed)
	wire.SystemStatus.Serve(s, func(context.Context, *wire.Empty) (*wire.SystemStatusReply, error) {
		return e.cfg.Cluster.Status(), nil
	})
}

// RegisterOpen adds to another server what is answered to those who have no certificate.
func (e *Endpoints) RegisterOpen(s *wire.Server) { e.joining.RegisterOpen(s) }

func (e *Endpoints) jobPlan(ctx context.Context, req *wire.JobPlanRequest) (*wire.JobPlanReply, error) {
	if err := validate.JobShape(req.Job); err != nil {
		return nil, err
	}
	warnings, err := validate.Job(e.placed(req.Job), req.Job)
	if err != nil {
		return nil, err
	}
	reply, err := e.cfg.Planner.DryRun(ctx, req)
	if err != nil {
		return nil, err
	}
	reply.NodePool = req.Job.NodePool
	reply.Warnings = append(append(append([]string(nil), req.Warnings...), warnings...), reply.Warnings...)
	return reply, nil
}
