// Package endpoint owns the answers to the wire's methods, all of them behind one check: it waits until this server
// leads, checks what is asked against the state, proposes commands and serves reads, blocking ones too. What takes
// longer than a command is recorded as an intent that a keeper carries out. Only package server constructs it.
package endpoint

import (
	"context"
	"log/slog"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/server/controllers"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/server/validate"
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

// Secrets opens and seals entries of the secret store.
type Secrets interface {
	controllers.Secrets
	// Seal encrypts values for storing under a name.
	Seal(name string, values redact.Map) ([]byte, error)
}

// Config names what the endpoints stand on.
type Config struct {
	Store       *state.Store
	Proposer    fsm.Proposer
	Cluster     Cluster
	Heartbeats  Heartbeats
	Planner     Planner
	Collector   Collector
	Controllers *controllers.Dispatcher
	Nodes       controllers.Nodes
	Secrets     Secrets
	Log         *slog.Logger
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
	serve(e, s, wire.NodeInventory, e.nodeInventory)
	serve(e, s, wire.NodeGrants, e.nodeGrants)
	serve(e, s, wire.NodeList, e.nodeList)
	serve(e, s, wire.NodeGet, e.nodeGet)
	serve(e, s, wire.NodeAllocList, e.nodeAllocList)
	serve(e, s, wire.NodeEligibility, e.nodeEligibility)
	e.registerStorage(s)
	serve(e, s, wire.SystemGC, e.systemGC)
	serve(e, s, wire.SystemSearch, e.search)
	serve(e, s, wire.NamespaceList, e.namespaceList)
	serve(e, s, wire.SigningKeys, e.signingKeys)
	wire.SystemStatus.Serve(s, func(context.Context, *wire.Empty) (*wire.SystemStatusReply, error) {
		return e.cfg.Cluster.Status(), nil
	})
	serveStream(e, s, wire.NodeAllocs, e.nodeAllocs)
	serveStream(e, s, wire.NodeControllerCalls, e.nodeControllerCalls)
}

func (e *Endpoints) registerStorage(s *wire.Server) {
	serve(e, s, wire.VolumeCreate, e.volumeCreate)
	serve(e, s, wire.VolumeRegister, e.volumeRegister)
	serve(e, s, wire.VolumeExpand, e.volumeExpand)
	serve(e, s, wire.VolumeDelete, e.volumeDelete)
	serve(e, s, wire.VolumeDeregister, e.volumeDeregister)
	serve(e, s, wire.VolumeDetach, e.volumeDetach)
	serve(e, s, wire.VolumeGet, e.volumeGet)
	serve(e, s, wire.VolumeList, e.volumeList)
	serve(e, s, wire.VolumeExternal, e.volumeExternal)
	serve(e, s, wire.SnapshotCreate, e.snapshotCreate)
	serve(e, s, wire.SnapshotDelete, e.snapshotDelete)
	serve(e, s, wire.SnapshotList, e.snapshotList)
	serve(e, s, wire.PluginGet, e.pluginGet)
	serve(e, s, wire.PluginList, e.pluginList)
	serve(e, s, wire.PluginRebind, e.pluginRebind)
}

// serve adds a handler that is asked only when this server can answer.
func serve[Req, Resp any](
	e *Endpoints, s *wire.Server, m wire.Method[Req, Resp], h func(context.Context, *Req) (*Resp, error),
) {
	m.Serve(s, func(ctx context.Context, req *Req) (*Resp, error) {
		if err := e.cfg.Cluster.Ready(ctx); err != nil {
			return nil, err
		}
		return h(ctx, req)
	})
}

// serveStream adds the handler of a stream behind the same check.
func serveStream[Req, In, Out any](
	e *Endpoints, s *wire.Server, m wire.StreamMethod[Req, In, Out], h func(*Req, *wire.Stream[Out, In]) error,
) {
	m.Serve(s, func(req *Req, stream *wire.Stream[Out, In]) error {
		if err := e.cfg.Cluster.Ready(stream.Context()); err != nil {
			return err
		}
		return h(req, stream)
	})
}

func (e *Endpoints) jobPlan(ctx context.Context, req *wire.JobPlanRequest) (*wire.JobPlanReply, error) {
	if err := validate.JobShape(req.Job); err != nil {
		return nil, err
	}
	warnings, err := validate.Job(e.cfg.Store.Snapshot(), req.Job)
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
