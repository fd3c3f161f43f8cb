// Package nodes owns the answers to what nodes call, and to reads and orders about nodes: who they are, their allocs,
// their reports and the permissions to mount. Only package endpoint constructs it.
package nodes

import (
	"log/slog"
	"time"

	"berth/internal/base/ids"
	"berth/internal/server/controllers"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/wire"
)

// Heartbeats knows when nodes were heard.
type Heartbeats interface {
	// Beat notes that a node was heard and returns how soon it should be heard again.
	Beat(ids.Node) time.Duration
	// Silence says how long nothing was heard of a node, and how much longer until it counts as silent; 0: it does.
	Silence(ids.Node) (lasts, rest time.Duration)
	// Limit is how long a node may be silent.
	Limit() time.Duration
}

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer    fsm.Proposer
	Heartbeats  Heartbeats
	Controllers *controllers.Dispatcher
	Secrets     controllers.Secrets
	Log         *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct {
	cfg       Config
	begun     begun
	refused   refusals
	unplaced  unplaced
	misplaced misplaced
}

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg: cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.NodeRegister, e.nodeRegister)
	serving.Unary(e.cfg.Base, s, wire.NodeHeartbeat, e.nodeHeartbeat)
	serving.Unary(e.cfg.Base, s, wire.NodeAllocsKnown, e.nodeAllocsKnown)
	serving.Unary(e.cfg.Base, s, wire.NodeUpdate, e.nodeUpdate)
	serving.Unary(e.cfg.Base, s, wire.NodeInventory, e.nodeInventory)
	serving.Unary(e.cfg.Base, s, wire.NodeInventoryKnown, e.nodeInventoryKnown)
	serving.Waiting(e.cfg.Base, s, wire.NodeGrants, e.nodeGrants)
	serving.Unary(e.cfg.Base, s, wire.NodeList, e.nodeList)
	serving.Unary(e.cfg.Base, s, wire.NodeGet, e.nodeGet)
	serving.Unary(e.cfg.Base, s, wire.NodeEligibility, e.nodeEligibility)
	serving.Unary(e.cfg.Base, s, wire.NodePurge, e.purge)
	serving.Unary(e.cfg.Base, s, wire.NodeLeave, e.nodeLeave)
	serving.Unary(e.cfg.Base, s, wire.NodeRebootConfirm, e.rebootConfirm)
	serving.Unary(e.cfg.Base, s, wire.NodeReadmit, e.readmit)
	serving.Term(e.cfg.Base, s, wire.NodeAllocs, e.nodeAllocs)
	serving.Term(e.cfg.Base, s, wire.NodeControllerCalls, e.nodeControllerCalls)
}
