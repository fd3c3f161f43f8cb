// Package servicesync owns that an agent of Consul has the services of the allocs that run here, and no others of this
// node. What is to be done about one service decides internal/model/consul; here it is looked, done and looked again:
// for one service at a time, at each event of an alloc or the catalog, and for all from time to time. All of it is in
// memory: after a restart ids tell what is this node's, and registrations what they were made of. Only the client's
// composition imports it.
package servicesync

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/client/consultokens"
	"berth/internal/model/alloc"
	model "berth/internal/model/consul"
	"berth/internal/model/node"
	"berth/internal/port/consul"
)

// Allocs is whose services are registered; the client's allocs implement it.
type Allocs interface {
	// Served lists the allocs that may have processes and whose job has services.
	Served() []Served
	// Changed returns a channel that is closed when that list, or what it says, may have changed.
	Changed() <-chan struct{}
	// Say adds an event to the tasks of an alloc; an empty name means all of them.
	Say(id ids.Alloc, task, text string)
}

// Served is an alloc with services.
type Served struct {
	Bundle   alloc.Bundle
	Report   *alloc.Alloc // its status, the states of its tasks and its own network
	Stopping bool
}

// Config wires a keeper.
type Config struct {
	Agent  *consul.Agent
	Allocs Allocs
	Node   func() *node.Node
	// Audit is how often all is compared without an event; 0: 45 s.
	Audit time.Duration
	// Tokens are those of services; nil: all are registered by the node's own.
	Tokens Tokens
	Log    *slog.Logger
}

// Tokens are those by which services are registered that have identities; client/consultokens implements it.
type Tokens interface {
	// Agent is the agent of Consul, spoken to by the token of a service; Known asks for none that is not there.
	Agent(ctx context.Context, of consultokens.Service) (*consul.Agent, error)
	Known(of consultokens.Service) *consul.Agent
	// Release gives a token back, once the service is not registered any more.
	Release(ctx context.Context, of consultokens.Service) error
}

// Bounds: how long changes are collected, how often all is compared, how long the catalog is waited for, for how long
// the end of a task waits until its services are gone, and for how long a server of Consul that is back may still take
// older tags over: it does so as it begins, before or while the first question is answered.
const (
	settle   = 20 * time.Millisecond
	audit    = 45 * time.Second
	longest  = 5 * time.Minute
	patience = 5 * time.Second
	recovery = 10 * time.Second
)

// Keeper registers.
type Keeper struct {
	cfg  Config
	log  *slog.Logger
	loop *reconcile.Loop[string]

	found found

	mu      sync.Mutex
	node    string // the agent's name in the catalog; empty: it was not reached yet
	self    consul.Self
	back    time.Time        // Consul answered again, after it had not; zero: it always did
	changed lifecycle.Signal // of what Attributes says
	moved   lifecycle.Signal // of registrations
	ready   bool             // the list of allocs was looked at
	wanted  map[string]*entry
	shown   map[string]model.Shown // the catalog's, by id, as it was seen last
	left    map[key]time.Time      // by alloc and task: the start of the run that is about to end
}

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	if cfg.Audit == 0 {
		cfg.Audit = audit
	}
	k := &Keeper{
		cfg:    cfg,
		log:    cfg.Log.With(logkey.Component, "consul"),
		wanted: map[string]*entry{},
		shown:  map[string]model.Shown{},
		left:   map[key]time.Time{},
		found:  found{asked: make(chan struct{}, 1)},
	}
	k.loop = reconcile.New(reconcile.Config{
		Name:     "services in Consul",
		Parallel: 8,
		MinPause: 250 * time.Millisecond,
		MaxPause: 30 * time.Second,
	}, k.pass)
	return k
}

// Run registers until ctx ends. What is registered stays: the next agent goes on with it.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"register": k.loop.Run,
		"allocs":   k.follow,
		"catalog":  k.watch,
		"health":   k.health,
		"audit":    k.audits,
	})
}

func (k *Keeper) follow(ctx context.Context) error {
	return lifecycle.Follow(ctx, k.cfg.Allocs.Changed, settle, func() { k.take(k.cfg.Allocs.Served()) })
}
