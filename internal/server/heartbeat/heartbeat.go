// Package heartbeat owns the knowledge of which nodes are alive: every beat moves a node's deadline, and a deadline
// that passes takes the node down together with its allocs. One loop watches over all nodes. Whoever was not listening
// cannot say that a node was silent: a new leader, and one that stood still, count every node as heard now. Only
// package server runs it.
package heartbeat

import (
	"container/heap"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
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
	listening time.Time // since when every beat is heard; zero: nobody listens
	looked    time.Time // when the loop looked last
	heard     map[ids.Node]time.Time
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
	return &Timers{cfg: cfg, deadlines: map[ids.Node]*deadline{}, heard: map[ids.Node]time.Time{}}
}

// Beat notes that a node was heard, and returns how soon it should be heard again.
func (t *Timers) Beat(id ids.Node) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.heard[id] = now
	if t.cfg.Endless {
		t.release(id)
	} else {
		t.extend(id, now)
	}
	return t.cfg.TTL
}

// Limit is how long a node may be silent.
func (t *Timers) Limit() time.Duration { return t.cfg.TTL + t.cfg.Grace }

// Silence says how long nothing was heard of a node by a server that listened, and how much longer that must last until
// the node counts as silent; 0: it does.
func (t *Timers) Silence(id ids.Node) (lasts, rest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listening.IsZero() {
		return 0, t.Limit()
	}
	from := t.listening
	if at := t.heard[id]; at.After(from) {
		from = at
	}
	lasts = time.Since(from)
	return lasts, max(0, t.Limit()-lasts)
}

// release stops watching over a node.
func (t *Timers) release(id ids.Node) {
	if d := t.deadlines[id]; d != nil {
		heap.Remove(&t.order, d.slot)
		delete(t.deadlines, id)
	}
}

// extend gives a node its full time from now on. It never makes any deadline an earlier one.
func (t *Timers) extend(id ids.Node, now time.Time) {
	at := now.Add(t.Limit())
	if d := t.deadlines[id]; d != nil {
		d.at = at
		heap.Fix(&t.order, d.slot)
		return
	}
	d := &deadline{node: id, at: at}
	t.deadlines[id] = d
	heap.Push(&t.order, d)
}

// Run gives every node that is not down a full grace and then takes down those that fall silent, until ctx ends. It
// looks often enough to notice that it stood still itself.
func (t *Timers) Run(ctx context.Context) error {
	t.reset()
	defer t.stop()
	for {
		silent, pause := t.look(time.Now())
		if len(silent) > 0 && t.takeDown(ctx, silent) {
			continue
		}
		if !retry.Sleep(ctx, pause) {
			return nil
		}
	}
}

// reset begins a term of leadership: what was heard before it was heard by others.
func (t *Timers) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.deadlines, t.order = map[ids.Node]*deadline{}, nil
	t.listening, t.looked = now, now
	clear(t.heard)
	for n := range t.cfg.Store.Snapshot().Nodes(nil, "") {
		if n.Status != node.StatusDown {
			t.extend(n.ID, now)
		}
	}
}

// stop ends the term: nobody listens any more.
func (t *Timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listening = time.Time{}
}

// look lists the nodes whose deadline has passed, and says how long the loop may rest. A server that did not look for
// more than half the time to live has not heard the beats of that time: all nodes have a full grace from now.
func (t *Timers) look(now time.Time) ([]ids.Node, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gap := now.Sub(t.looked); gap > t.cfg.TTL/2 {
		t.cfg.Log.Warn("this server stood still; every node has its full time from now", "for", gap)
		t.listening = now
		for _, d := range t.order {
			d.at = now.Add(t.Limit()) // all are equal: any order is right
		}
	}
	t.looked = now
	out := t.order.due(0, now, nil)
	slices.Sort(out)
	pause := t.cfg.TTL / 4
	switch {
	case len(out) > 0:
		pause = min(pause, retryPause) // until they are taken down
	case len(t.order) > 0:
		pause = min(pause, t.order[0].at.Sub(now))
	}
	return out, pause
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
		t.release(id)
	}
}

type deadline struct {
	node ids.Node
	at   time.Time
	slot int
}

type timeline []*deadline

// due adds the nodes from slot i on downwards whose deadline has passed. What lies beneath one that has not passed is
// not looked at: it is later.
func (l timeline) due(i int, now time.Time, out []ids.Node) []ids.Node {
	if i >= len(l) || l[i].at.After(now) {
		return out
	}
	out = append(out, l[i].node)
	return l.due(2*i+2, now, l.due(2*i+1, now, out))
}

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
