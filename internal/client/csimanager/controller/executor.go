// Package controller owns the execution of controller work on a node: it takes the calls that the servers ask for,
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

// Executor runs controller work.
type Executor struct{ cfg Config }

// New returns an executor that does nothing before Serve.
func New(cfg Config) *Executor {
	if cfg.Parallel == 0 {
		cfg.Parallel = 10
	}
	return &Executor{cfg: cfg}
}

// workKey names a call: repeated work of the same kind and subject is the same call.
type workKey struct{ kind, subject string }

// queueKey separates undoing from making, so that neither starves the other.
type queueKey struct {
	plugin string
	undo   bool
}

// job is one call, waiting or under way.
type job struct {
	work  wire.Work
	begun bool
}

type queue struct {
	busy int
	wait []*job
}

// session is one stream of work with its reports, and the calls that were asked for on it.
type session struct {
	x      *Executor
	g      *lifecycle.Group
	mu     sync.Mutex
	jobs   map[workKey]*job
	queues map[queueKey]*queue

	send sync.Mutex // one report at a time
	to   *wire.Stream[wire.WorkReport, wire.Work]
}

// Serve takes work from one session and reports on it until the session or ctx ends. Calls under way are cancelled and
// have ended when it returns: controller work is leased to the session, the servers ask again on the next.
func (x *Executor) Serve(ctx context.Context, stream *wire.Stream[wire.WorkReport, wire.Work]) error {
	g, gctx := lifecycle.NewGroup(ctx)
	s := &session{x: x, g: g, to: stream, jobs: map[workKey]*job{}, queues: map[queueKey]*queue{}}
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
			s.take(gctx, *w)
		}
	})
	return g.Wait()
}

// take queues one work, or withdraws it. The same work again while it is queued or under way changes nothing.
func (s *session) take(ctx context.Context, w wire.Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := workKey{w.Kind, w.Subject}
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
	j := &job{work: w}
	s.jobs[key] = j
	q.wait = append(q.wait, j)
	s.pump(ctx, q)
}

func (s *session) queue(w wire.Work) *queue {
	key := queueKey{string(w.Plugin), w.Kind == wire.WorkDetach || w.Kind == wire.WorkDelete || w.Kind == wire.WorkDeleteSnapshot}
	q := s.queues[key]
	if q == nil {
		q = &queue{}
		s.queues[key] = q
	}
	return q
}

// pump starts what there is room for. The caller holds the lock.
func (s *session) pump(ctx context.Context, q *queue) {
	for q.busy < s.x.cfg.Parallel && len(q.wait) > 0 {
		j := q.wait[0]
		q.wait = q.wait[1:]
		if !s.g.Go(j.work.Kind, func() error { return s.run(ctx, q, j) }) {
			return // the session is ending
		}
		j.begun = true
		q.busy++
	}
}

// run makes one call and reports its end.
func (s *session) run(ctx context.Context, q *queue, j *job) error {
	limit := j.work.Timeout
	if limit <= 0 {
		limit = defaultTimeout
	}
	began := time.Now()
	cctx, cancel := context.WithTimeout(ctx, limit)
	r := s.x.call(cctx, j.work)
	cancel()
	s.mu.Lock()
	delete(s.jobs, workKey{j.work.Kind, j.work.Subject})
	q.busy--
	s.pump(ctx, q)
	s.mu.Unlock()
	log := s.x.cfg.Log.With(logkey.Op, j.work.Kind, logkey.Volume, j.work.Subject, logkey.Plugin, j.work.Plugin, logkey.Took, time.Since(began))
	if r.Err != nil {
		log.Warn("controller call did not succeed", logkey.Error, r.Err.Message)
	} else {
		log.Debug("controller call done")
	}
	if ctx.Err() != nil {
		return nil // the session is over: the servers know that the end is unknown
	}
	s.send.Lock()
	defer s.send.Unlock()
	return s.to.Send(r)
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
