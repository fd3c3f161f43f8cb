// Package controller owns the execution of controller calls on a node: it takes the calls that the servers ask for,
// makes each of them once at a time through the plugin's controller instance, and reports how they ended. It decides
// nothing: intents, retries and order are the servers'.
package controller

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager/instance"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/wire"
)

// defaultTimeout bounds a call for which the servers named no time.
const defaultTimeout = 5 * time.Minute

// NodeExpander grows a staged volume; the node keeper implements it.
type NodeExpander interface {
	WantSize(key volume.StagingKey, bytes int64) error
}

// Config wires an executor.
type Config struct {
	Plugins instance.Plugins
	Node    NodeExpander
	// Parallel is how many calls of one kind (attaching or detaching) run at once per plugin; 0: 10.
	Parallel int
	Log      *slog.Logger
}

// Executor makes controller calls.
type Executor struct{ cfg Config }

// New returns an executor that does nothing before Serve.
func New(cfg Config) *Executor {
	if cfg.Parallel == 0 {
		cfg.Parallel = 10
	}
	return &Executor{cfg: cfg}
}

// callKey names a call: one of the same kind and subject, asked for again, is the same call.
type callKey struct{ kind, subject string }

// queueKey separates undoing from making, so that neither starves the other.
type queueKey struct {
	plugin string
	undo   bool
}

// job is one call, waiting or under way.
type job struct {
	call  wire.ControllerCall
	begun bool
}

type queue struct {
	busy int
	wait []*job
}

// stream is one stream of calls with its reports, and the calls that were asked for on it.
type stream struct {
	x      *Executor
	g      *lifecycle.Group
	mu     sync.Mutex
	jobs   map[callKey]*job
	queues map[queueKey]*queue

	send sync.Mutex // one report at a time
	to   *wire.Stream[wire.ControllerResult, wire.ControllerCall]
}

// Serve takes calls from one stream and reports on it until the stream or ctx ends. Calls under way are cancelled and
// have ended when it returns: a call is leased to the stream, the servers ask again on the next.
func (x *Executor) Serve(ctx context.Context, to *wire.Stream[wire.ControllerResult, wire.ControllerCall]) error {
	g, gctx := lifecycle.NewGroup(ctx)
	s := &stream{
		x:      x,
		g:      g,
		to:     to,
		jobs:   map[callKey]*job{},
		queues: map[queueKey]*queue{},
	}
	g.Go("take controller calls", func() error {
		defer g.Stop()
		for {
			w, err := to.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			s.take(gctx, *w)
		}
	})
	return g.Wait()
}

// take queues one call, or withdraws it. The same call again while it is queued or under way changes nothing.
func (s *stream) take(ctx context.Context, w wire.ControllerCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := callKey{w.Kind, w.Subject}
	q := s.queue(w)
	if old := s.jobs[key]; old != nil {
		if w.Cancel && !old.begun {
			delete(s.jobs, key)
			q.wait = slices.DeleteFunc(q.wait, func(j *job) bool { return j == old })
		}
		return
	}
	if w.Cancel {
		return
	}
	j := &job{call: w}
	s.jobs[key] = j
	q.wait = append(q.wait, j)
	s.pump(ctx, q)
}

func (s *stream) queue(w wire.ControllerCall) *queue {
	key := queueKey{string(w.Plugin),
		w.Kind == wire.CallDetach || w.Kind == wire.CallDelete || w.Kind == wire.CallDeleteSnapshot}
	q := s.queues[key]
	if q == nil {
		q = &queue{}
		s.queues[key] = q
	}
	return q
}

// pump starts what there is capacity for. The caller holds the lock.
func (s *stream) pump(ctx context.Context, q *queue) {
	for q.busy < s.x.cfg.Parallel && len(q.wait) > 0 {
		j := q.wait[0]
		q.wait = q.wait[1:]
		if !s.g.Go(j.call.Kind, func() error { return s.run(ctx, q, j) }) {
			return // the stream is ending
		}
		j.begun = true
		q.busy++
	}
}

// run makes one call and reports its end.
func (s *stream) run(ctx context.Context, q *queue, j *job) error {
	limit := j.call.Timeout
	if limit <= 0 {
		limit = defaultTimeout
	}
	began := time.Now()
	cctx, cancel := context.WithTimeout(ctx, limit)
	r := s.x.call(cctx, j.call)
	cancel()
	s.mu.Lock()
	delete(s.jobs, callKey{j.call.Kind, j.call.Subject})
	q.busy--
	s.pump(ctx, q)
	s.mu.Unlock()
	log := s.x.cfg.Log.With(logkey.Op, j.call.Kind, logkey.Volume, j.call.Subject, logkey.Plugin, j.call.Plugin,
		logkey.Took, time.Since(began))
	if r.Err != nil {
		log.Warn("controller call did not succeed", logkey.Error, r.Err.Message)
	} else {
		log.Debug("controller call done")
	}
	if ctx.Err() != nil {
		return nil // the stream is over: the servers know that the end is unknown
	}
	s.send.Lock()
	defer s.send.Unlock()
	return s.to.Send(r)
}

// call makes one call.
func (x *Executor) call(ctx context.Context, w wire.ControllerCall) *wire.ControllerResult {
	r := &wire.ControllerResult{Kind: w.Kind, Subject: w.Subject, Generation: w.Generation}
	if w.Kind == wire.CallNodeExpand {
		r.Err = callError(x.nodeExpand(w))
		return r
	}
	conn, err := x.cfg.Plugins.Use(w.Plugin, plugin.RoleController)
	if err != nil {
		r.Err = callError(err)
		return r
	}
	defer conn.Release()
	r.Err = callError(dispatch(ctx, conn, w, r))
	return r
}

func (x *Executor) nodeExpand(w wire.ControllerCall) error {
	if w.Volume == nil {
		return fault.New(fault.Invalid, w.Kind, w.Subject, "the call has no arguments")
	}
	return x.cfg.Node.WantSize(volume.StagingKey{Plugin: w.Plugin, ExternalID: w.Volume.ExternalID}, w.Volume.Min)
}

// callError translates a failure into what the servers decide by. Failures here are faults, or errors of plugins, whose
// text is their fault's; the hint travels beside the text.
func callError(err error) *wire.CallError {
	if err == nil {
		return nil
	}
	out := &wire.CallError{Kind: uint8(fault.KindOf(err)), Message: err.Error(), Retry: csi.RetryOf(err)}
	var f *fault.Error
	if errors.As(err, &f) {
		text := *f
		text.Hint = ""
		out.Message, out.Hint = text.Error(), f.Hint
	}
	if e, ok := csi.AsError(err); ok {
		out.Code, out.Uncertain = uint32(e.Code), e.Finality == csi.Unknown
	}
	return out
}
