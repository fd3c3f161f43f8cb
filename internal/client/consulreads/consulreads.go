// Package consulreads owns what Consul says of what the templates of this node's tasks read. It asks for each source by
// a call that blocks until something is another thing, by the token of its task, and passes on what it heard to package
// sources. Only the client's composition makes it.
package consulreads

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/reconcile"
	"berth/internal/base/render"
	"berth/internal/client/sources"
)

// Bounds of what is asked at a time. An agent of Consul takes 200 connections of a machine.
const (
	atOnce = 64
	// wait is how long a call blocks while nothing changes, and share while more is to be asked than may be at once.
	wait  = 5 * time.Minute
	share = 2 * time.Second
	// rest is how long a source is left alone that has just changed.
	rest = 200 * time.Millisecond
)

// Reader is Consul as a task asks it; port/consul implements it.
type Reader interface {
	Read(ctx context.Context, s render.Source, after uint64, wait time.Duration) (text string, index uint64, err error)
}

// Listener is who is told what was heard; package sources implements it.
type Listener interface {
	// Tell says what a source is; Refuse that it cannot be said, for now.
	Tell(t sources.Task, s render.Source, text string)
	Refuse(t sources.Task, s render.Source, why error)
}

// Config wires a keeper.
type Config struct {
	// As is Consul as a task asks it.
	As func(t sources.Task) (Reader, error)
	To Listener
	// Say adds an event to those of a task.
	Say func(t sources.Task, text string)
	Log *slog.Logger
}

// Keeper asks Consul.
type Keeper struct {
	cfg  Config
	loop *reconcile.Loop[watch]

	mu      sync.Mutex
	watched map[watch]*seen
}

// watch is a source that a task reads.
type watch struct {
	task   sources.Task
	source render.Source
}

// seen is what was heard of a watch.
type seen struct {
	text    string
	index   uint64
	known   bool // something was heard
	failing bool
	cancel  context.CancelFunc // of the call under way; nil: there is none
}

// New returns a keeper. It starts nothing.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, watched: map[watch]*seen{}}
	k.loop = reconcile.New(reconcile.Config{
		Name:     "what templates read of Consul",
		Parallel: atOnce,
		MinPause: time.Second,
		MaxPause: 15 * time.Second,
		Log:      cfg.Log,
	}, k.ask)
	return k
}

// Run asks until ctx ends.
func (k *Keeper) Run(ctx context.Context) error { return k.loop.Run(ctx) }

// Want has Consul asked for more that a task reads.
func (k *Keeper) Want(t sources.Task, more []render.Source) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range more {
		w := watch{t, s}
		if k.watched[w] != nil {
			continue
		}
		k.watched[w] = &seen{}
		k.loop.Mark(w)
		if len(k.watched) == atOnce+1 {
			k.hurry()
		}
	}
}

// hurry ends all calls under way: those that begin from now on take turns. The caller holds the lock.
func (k *Keeper) hurry() {
	for _, one := range k.watched {
		if one.cancel != nil {
			one.cancel()
		}
	}
}

// Forget ends that Consul is asked for a task.
func (k *Keeper) Forget(t sources.Task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for w, one := range k.watched {
		if w.task != t {
			continue
		}
		if one.cancel != nil {
			one.cancel()
		}
		delete(k.watched, w)
		k.loop.Forget(w)
	}
}

// ask makes one call.
func (k *Keeper) ask(ctx context.Context, w watch) (reconcile.Result, error) {
	call, after, patience := k.begin(ctx, w)
	if call == nil {
		return reconcile.Done(), nil
	}
	text, index, err := k.read(call, w, after, patience)
	if call.Err() != nil {
		return reconcile.Again(0, "it takes turns with others"), nil
	}
	if err != nil {
		k.failed(w, err)
		return reconcile.Done(), err
	}
	k.heard(w, text, index)
	return reconcile.Again(rest, "it is asked again for as long as its task reads it"), nil
}

func (k *Keeper) read(ctx context.Context, w watch, after uint64, patience time.Duration) (string, uint64, error) {
	as, err := k.cfg.As(w.task)
	if err != nil {
		return "", 0, fault.Note(err, "read", w.source.String())
	}
	return as.Read(ctx, w.source, after, patience)
}

// begin notes that a call is under way, which ends with the context that it returns; nil: nobody reads this any more.
func (k *Keeper) begin(ctx context.Context, w watch) (context.Context, uint64, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.watched[w]
	if one == nil {
		return nil, 0, 0
	}
	if one.cancel != nil {
		one.cancel()
	}
	call, cancel := context.WithCancel(ctx)
	one.cancel = cancel
	if len(k.watched) > atOnce {
		return call, one.index, share
	}
	return call, one.index, wait
}

// heard passes on what Consul says, if it is something else. The next call goes on from the index of this one, also
// when that is lower than one before: Consul began anew then.
func (k *Keeper) heard(w watch, text string, index uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.watched[w]
	if one == nil {
		return
	}
	news := !one.known || one.text != text
	one.text, one.index = text, index
	one.known, one.failing = true, false
	if news {
		k.cfg.To.Tell(w.task, w.source, text)
	}
}

// failed passes on why Consul does not say what a source is. What it has said before counts on, and the task's events
// say so once, however much of it fails.
func (k *Keeper) failed(w watch, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.watched[w]
	if one == nil {
		return
	}
	first := one.known
	for other, of := range k.watched {
		if other.task == w.task && of.failing && of.known {
			first = false
		}
	}
	one.failing, one.index = true, 0
	if first {
		k.cfg.Say(w.task, "What was rendered stays: "+why.Error())
	}
	if !one.known {
		k.cfg.To.Refuse(w.task, w.source, why)
	}
}
