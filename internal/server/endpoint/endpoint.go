// Package endpoint owns the answers to the wire's methods over jobs, evaluations, allocs, nodes and the cluster: it
// checks what is asked against the state, proposes commands and serves reads, blocking ones too. Only package server
// constructs it; the methods over volumes and plugins are served by package volumes and claims.
package endpoint

import (
	"context"
	"log/slog"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Heartbeats notes that a node was heard and returns how soon it should be heard again.
type Heartbeats interface{ Beat(ids.Node) time.Duration }

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
	// Ready waits until this server leads and its state is up to date, or answers why not.
	Ready(ctx context.Context) error
	// Confirm makes sure that this server still leads and has applied all that was committed before.
	Confirm(ctx context.Context) error
	Leading() bool
	Status() *wire.SystemStatusReply
}

// StorageView tells for one alloc where its volumes stand.
type StorageView func(s *state.Snap, w *state.Watch, a *alloc.Alloc) []wire.AllocVolume

// Config names what the endpoints stand on.
type Config struct {
	Store      *state.Store
	Proposer   fsm.Proposer
	Heartbeats Heartbeats
	Planner    Planner // nil: dry runs answer Unavailable
	Collector  Collector
	Cluster    Cluster
	Storage    StorageView // nil: allocs tell nothing of their volumes
	Log        *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg: cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serve(e, s, wire.JobRegister, e.jobRegister)
	serve(e, s, wire.JobPlan, e.jobPlan)
	serve(e, s, wire.JobValidate, e.jobValidate)
	serve(e, s, wire.JobDeregister, e.jobDeregister)
	serve(e, s, wire.JobEvaluate, e.jobEvaluate)
	serve(e, s, wire.JobGet, e.jobGet)
	serve(e, s, wire.JobList, e.jobList)
	serve(e, s, wire.JobVersions, e.jobVersions)
	serve(e, s, wire.JobSubmission, e.jobSubmission)
	serve(e, s, wire.JobAllocs, e.jobAllocs)
	serve(e, s, wire.JobEvals, e.jobEvals)
	serve(e, s, wire.EvalGet, e.evalGet)
	serve(e, s, wire.EvalList, e.evalList)
	serve(e, s, wire.EvalAllocs, e.evalAllocs)
	serve(e, s, wire.AllocGet, e.allocGet)
	serve(e, s, wire.AllocList, e.allocList)
	serve(e, s, wire.AllocStop, e.allocStop)
	serve(e, s, wire.NodeRegister, e.nodeRegister)
	serve(e, s, wire.NodeHeartbeat, e.nodeHeartbeat)
	serve(e, s, wire.NodeAllocsKnown, e.nodeAllocsKnown)
	serve(e, s, wire.NodeUpdate, e.nodeUpdate)
	serve(e, s, wire.NodeList, e.nodeList)
	serve(e, s, wire.NodeGet, e.nodeGet)
	serve(e, s, wire.NodeAllocList, e.nodeAllocList)
	serve(e, s, wire.NodeEligibility, e.nodeEligibility)
	serve(e, s, wire.SystemGC, e.systemGC)
	serve(e, s, wire.SystemSearch, e.search)
	serve(e, s, wire.NamespaceList, e.namespaceList)
	wire.SystemStatus.Serve(s, func(context.Context, *wire.Empty) (*wire.SystemStatusReply, error) {
		return e.cfg.Cluster.Status(), nil
	})
	wire.NodeAllocs.Serve(s, e.nodeAllocs)
}

// serve adds a handler that is asked only when this server can answer.
func serve[Req, Resp any](e *Endpoints, s *wire.Server, m wire.Method[Req, Resp], h func(context.Context, *Req) (*Resp, error)) {
	m.Serve(s, func(ctx context.Context, req *Req) (*Resp, error) {
		if err := e.cfg.Cluster.Ready(ctx); err != nil {
			return nil, err
		}
		return h(ctx, req)
	})
}

func (e *Endpoints) jobPlan(ctx context.Context, req *wire.JobPlanRequest) (*wire.JobPlanReply, error) {
	if e.cfg.Planner == nil {
		return nil, fault.New(fault.Unavailable, "plan", "job", "this server has no scheduler")
	}
	if err := namedJob(req.Job); err != nil {
		return nil, err
	}
	warnings, err := e.admit(e.cfg.Store.Snapshot(), req.Job)
	if err != nil {
		return nil, err
	}
	reply, err := e.cfg.Planner.DryRun(ctx, req)
	if err != nil {
		return nil, err
	}
	reply.Warnings = append(append(append([]string(nil), req.Warnings...), warnings...), reply.Warnings...)
	return reply, nil
}
