// Package heartbeat owns the knowledge of which nodes are alive: every beat moves a node's deadline, and a deadline
// that passes takes the node down together with its allocs. One loop watches over all nodes. Only package server runs
// it.
package heartbeat

import (
	"container/heap"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// Config of the timers. Zero durations take the defaults.
type Config struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Log      *slog.Logger
	// TTL is what nodes receive; a node is down when nothing was heard of it for TTL and Grace together.
	TTL, Grace time.Duration
	// Endless never takes a node down that was heard once: server and node are one process. A node that is only
	// remembered, from an earlier run on the data directory, goes down all the same.
	Endless bool
}

// Defaults of Config.
const (
	DefaultTTL   = 10 * time.Second
	DefaultGrace = 10 * time.Second
	retryPause   = time.Second
)

// Timers hold a deadline for each node while this server leads.
type Timers struct {
	cfg Config

	mu        sync.Mutex
	deadlines map[ids.Node]*deadline
	order     timeline
	wake      lifecycle.Signal
}

// New returns timers that watch over nothing before Run.
func New(cfg Config) *Timers {
	if cfg.TTL <= 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.Grace <= 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Timers{cfg: cfg, deadlines: map[ids.Node]*deadline{}}
}

// Beat notes that a node was heard, and returns how soon it should be heard again.
func (t *Timers) Beat(id ids.Node) time.Duration {
	if t.cfg.Endless {
		t.release(id)
	} else {
		t.extend(id)
	}
	t.wake.Notify()
	return t.cfg.TTL
}

// release stops watching over a node.
func (t *Timers) release(id ids.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.deadlines[id]; d != nil {
		heap.Remove(&t.order, d.slot)
		delete(t.deadlines, id)
	}
}

func (t *Timers) extend(id ids.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Now().Add(t.cfg.TTL + t.cfg.Grace)
	if d := t.deadlines[id]; d != nil {
		d.at = at
		heap.Fix(&t.order, d.slot)
		return
	}
	d := &deadline{node: id, at: at}
	t.deadlines[id] = d
	heap.Push(&t.order, d)
}

// Run gives every node that is not down a full grace and then takes down those that fall silent, until ctx ends.
func (t *Timers) Run(ctx context.Context) error {
	t.reset()
	for {
		woken := t.wake.C()
		silent, pause := t.expired(time.Now())
		if len(silent) > 0 && !t.takeDown(ctx, silent) {
			pause = retryPause
		} else if len(silent) > 0 {
			continue
		}
		if !sleep(ctx, woken, pause) {
			return nil
		}
	}
}

func (t *Timers) reset() {
	t.mu.Lock()
	t.deadlines, t.order = map[ids.Node]*deadline{}, nil
	t.mu.Unlock()
	for n := range t.cfg.Store.Snapshot().Nodes(nil, "") {
		if n.Status != node.StatusDown {
			t.extend(n.ID)
		}
	}
}

// expired lists the nodes whose deadline has passed, and how long it is until the next one does; negative: never.
func (t *Timers) expired(now time.Time) ([]ids.Node, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []ids.Node
	for _, d := range t.order {
		if !d.at.After(now) {
			out = append(out, d.node)
		}
	}
	if len(t.order) == 0 {
		return nil, -1
	}
	slices.Sort(out)
	return out, max(0, t.order[0].at.Sub(now))
}

// takeDown marks nodes as down in one command and stops watching over them until they are heard again.
func (t *Timers) takeDown(ctx context.Context, silent []ids.Node) bool {
	cmd := &fsm.NodeStatus{Nodes: silent, Status: node.StatusDown, Description: "no heartbeat in time", Seed: ids.New()}
	if _, _, err := t.cfg.Proposer.Propose(ctx, cmd); err != nil {
		if ctx.Err() == nil {
			t.cfg.Log.Error("can't take silent nodes down; trying again", "nodes", len(silent), logkey.Error, err)
		}
		return false
	}
	for _, id := range silent {
		t.cfg.Log.Warn("node is down: no heartbeat in time", logkey.Node, id)
		t.forget(id)
	}
	return true
}

func (t *Timers) forget(id ids.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.deadlines[id]; d != nil && !d.at.After(time.Now()) { // not heard meanwhile
		heap.Remove(&t.order, d.slot)
		delete(t.deadlines, id)
	}
}

func sleep(ctx context.Context, woken <-chan struct{}, pause time.Duration) bool {
	var alarm <-chan time.Time
	if pause >= 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-woken:
	case <-alarm:
	}
	return ctx.Err() == nil
}

type deadline struct {
	node ids.Node
	at   time.Time
	slot int
}

type timeline []*deadline

func (l timeline) Len() int           { return len(l) }
func (l timeline) Less(i, j int) bool { return l[i].at.Before(l[j].at) }
func (l timeline) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].slot, l[j].slot = i, j
}

// Push is for container/heap.
func (l *timeline) Push(x any) {
	d := x.(*deadline)
	d.slot = len(*l)
	*l = append(*l, d)
}

// Pop is for container/heap.
func (l *timeline) Pop() any {
	last := len(*l) - 1
	d := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return d
}
