// Package controller owns the execution of controller work on a node: it takes the calls that the servers ask for,
// makes each of them once at a time through the plugin's controller instance, and reports how they ended. It decides
// nothing: intents, retries and order are the servers'.
package controller

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager"
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
	Plugins csimanager.Plugins
	Node    NodeExpander
	// Parallel is how many calls of one kind (attaching or detaching) run at once per plugin; 0: 10.
	Parallel int
	Log      *slog.Logger
}

// Executor runs controller work. One serves all sessions, so that a call goes on while the session is replaced.
type Executor struct {
	cfg     Config
	mu      sync.Mutex
	running map[workKey]*job
	queues  map[queueKey]*queue
}

// workKey names a call: repeated work of the same generation is the same call.
type workKey struct{ kind, subject string }

// queueKey separates undoing from making, so that neither starves the other.
type queueKey struct {
	plugin string
	undo   bool
}

// job is one call, waiting or under way.
type job struct {
	work   wire.Work
	cancel context.CancelFunc // set when it began
	owner  *session
}

type queue struct {
	busy int
	wait []*job
}

// New returns an executor that does nothing before Serve.
func New(cfg Config) *Executor {
	if cfg.Parallel == 0 {
		cfg.Parallel = 10
	}
	return &Executor{cfg: cfg, running: map[workKey]*job{}, queues: map[queueKey]*queue{}}
}

// session is one stream of work with its reports.
type session struct {
	g  *lifecycle.Group
	mu sync.Mutex // one report at a time
	to *wire.Stream[wire.WorkReport, wire.Work]
}

func (s *session) report(r *wire.WorkReport) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Send(r)
}

// Serve takes work from one session and reports on it until the session or ctx ends. Calls under way are cancelled when
// it returns: their ends are unknown, and the servers ask again (controller work is leased to the session).
func (x *Executor) Serve(ctx context.Context, stream *wire.Stream[wire.WorkReport, wire.Work]) error {
	g, gctx := lifecycle.NewGroup(ctx)
	s := &session{g: g, to: stream}
	g.Go("take controller work", func() error {
		defer g.Stop()
		for {
			w, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			x.take(gctx, s, *w)
		}
	})
	err := g.Wait()
	x.forget(s)
	return err
}

// take queues one work, or withdraws it. The same work again while it is queued or under way changes nothing.
func (x *Executor) take(ctx context.Context, s *session, w wire.Work) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := workKey{w.Kind, w.Subject}
	if old := x.running[key]; old != nil {
		if w.Cancel && old.cancel == nil {
			x.drop(key, old)
		}
		return
	}
	if w.Cancel {
		return
	}
	j := &job{work: w, owner: s}
	x.running[key] = j
	q := x.queue(w)
	q.wait = append(q.wait, j)
	x.pump(ctx, q)
}

func (x *Executor) queue(w wire.Work) *queue {
	key := queueKey{string(w.Plugin), w.Kind == wire.WorkDetach || w.Kind == wire.WorkDelete || w.Kind == wire.WorkDeleteSnapshot}
	q := x.queues[key]
	if q == nil {
		q = &queue{}
		x.queues[key] = q
	}
	return q
}

// drop takes a call out that has not begun. The caller holds the lock.
func (x *Executor) drop(key workKey, j *job) {
	delete(x.running, key)
	q := x.queue(j.work)
	for i, w := range q.wait {
		if w == j {
			q.wait = append(q.wait[:i], q.wait[i+1:]...)
			return
		}
	}
}

// pump starts what there is room for. The caller holds the lock.
func (x *Executor) pump(ctx context.Context, q *queue) {
	for q.busy < x.cfg.Parallel && len(q.wait) > 0 {
		j := q.wait[0]
		q.wait = q.wait[1:]
		limit := j.work.Timeout
		if limit <= 0 {
			limit = defaultTimeout
		}
		cctx, cancel := context.WithTimeout(ctx, limit)
		j.cancel = cancel
		q.busy++
		if !j.owner.g.Go(j.work.Kind, func() error { return x.run(ctx, cctx, q, j) }) {
			cancel()
			q.busy--
		}
	}
}

// run makes one call and reports its end.
func (x *Executor) run(ctx, cctx context.Context, q *queue, j *job) error {
	began := time.Now()
	r := x.call(cctx, j.work)
	j.cancel()
	x.mu.Lock()
	delete(x.running, workKey{j.work.Kind, j.work.Subject})
	q.busy--
	x.pump(ctx, q)
	x.mu.Unlock()
	log := x.cfg.Log.With(logkey.Op, j.work.Kind, logkey.Volume, j.work.Subject, logkey.Plugin, j.work.Plugin, logkey.Took, time.Since(began))
	if r.Err != nil {
		log.Warn("controller call did not succeed", logkey.Error, r.Err.Message)
	} else {
		log.Debug("controller call done")
	}
	if ctx.Err() != nil {
		return nil // the session is over: the servers know that the end is unknown
	}
	return j.owner.report(r)
}

// forget drops what a session left queued.
func (x *Executor) forget(s *session) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, j := range x.running {
		if j.owner == s {
			x.drop(key, j)
		}
	}
}

// call makes the call that a work describes.
func (x *Executor) call(ctx context.Context, w wire.Work) *wire.WorkReport {
	r := &wire.WorkReport{Kind: w.Kind, Subject: w.Subject, Generation: w.Generation}
	if w.Kind == wire.WorkNodeExpand {
		r.Err = workError(x.nodeExpand(w))
		return r
	}
	conn, err := x.cfg.Plugins.Use(w.Plugin, plugin.RoleController)
	if err != nil {
		r.Err = workError(err)
		return r
	}
	defer conn.Release()
	r.Err = workError(dispatch(ctx, conn, w, r))
	return r
}

func (x *Executor) nodeExpand(w wire.Work) error {
	if w.Volume == nil {
		return fault.New(fault.Invalid, w.Kind, w.Subject, "the work has no arguments")
	}
	return x.cfg.Node.WantSize(volume.StagingKey{Plugin: w.Plugin, ExternalID: w.Volume.ExternalID}, w.Volume.Min)
}

// workError translates a failure into what the servers decide by.
func workError(err error) *wire.WorkError {
	if err == nil {
		return nil
	}
	out := &wire.WorkError{Kind: uint8(fault.KindOf(err)), Message: err.Error(), Retry: csi.RetryOf(err).String()}
	var f *fault.Error
	if errors.As(err, &f) {
		out.Hint = f.Hint
	}
	if e, ok := csi.AsError(err); ok {
		out.Code, out.Uncertain = uint32(e.Code), e.Finality == csi.Unknown
	}
	return out
}
