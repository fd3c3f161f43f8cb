// Package controller owns the execution of controller calls on a node: it takes the calls that the servers ask for,
// makes each of them once at a time through the plugin's controller instance, and reports how they ended. It decides
// nothing: intents, retries and order are the servers'.
package controller

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"berth/internal/base/bootclock"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
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
	// Parallel is how many calls of one kind (attaching or detaching) run at once of a plugin whose job does not say
	// it; 0: 10.
	Parallel int
	// Clock counts the time of calls as the servers do, suspends included; nil: Go's clock alone.
	Clock *bootclock.Clock
	Log   *slog.Logger
}

// Executor makes controller calls.
type Executor struct{ cfg Config }

// Credits is how many calls of one kind it makes at once of a plugin whose job does not say it.
func (x *Executor) Credits() int { return x.cfg.Parallel }

// New returns an executor that does nothing before Serve.
func New(cfg Config) *Executor {
	if cfg.Parallel == 0 {
		cfg.Parallel = 10
	}
	return &Executor{cfg: cfg}
}

// callKey names a call: one of the same kind and subject, asked for again, is the same call.
type callKey struct{ kind, subject string }

// kindKey counts calls: undoing apart from making, so that neither starves the other.
type kindKey struct {
	plugin string
	undo   bool
}

// job is a call under way.
type job struct {
	generation uint64
	cancel     context.CancelFunc
}

// stream is one stream of calls with its reports, and the calls that are under way for it. Those that wait are the
// servers' to keep.
type stream struct {
	x    *Executor
	g    *lifecycle.Group
	mu   sync.Mutex
	jobs map[callKey]*job
	vols map[volume.StagingKey]bool // that a call is about
	busy map[kindKey]int

	send sync.Mutex // one report at a time
	to   *wire.Stream[wire.ControllerResult, wire.ControllerCall]
}

// Serve takes calls from one stream and reports on it until the stream or ctx ends. Calls under way are cancelled and
// have ended when it returns: a call is leased to the stream, the servers ask again on the next.
func (x *Executor) Serve(ctx context.Context, to *wire.Stream[wire.ControllerResult, wire.ControllerCall]) error {
	g, gctx := lifecycle.NewGroup(ctx)
	s := &stream{
		x:    x,
		g:    g,
		to:   to,
		jobs: map[callKey]*job{},
		vols: map[volume.StagingKey]bool{},
		busy: map[kindKey]int{},
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
			if err := s.take(gctx, *w); err != nil {
				return err
			}
		}
	})
	return g.Wait()
}

// take begins a call, or ends one that is withdrawn. The same call again while it is under way changes nothing. One
// that cannot begin now goes back: another call of its volume is under way, which may be its own opposite, given up by
// the servers, or as many as this node makes at once.
func (s *stream) take(ctx context.Context, w wire.ControllerCall) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := callKey{w.Kind, w.Subject}
	old := s.jobs[key]
	switch {
	case w.Cancel:
		if old != nil && old.generation == w.Generation {
			old.cancel()
		}
		return nil
	case old != nil && old.generation == w.Generation:
		return nil
	}
	vol := volume.StagingKey{Plugin: w.Plugin, ExternalID: w.ExternalID()}
	kind := kindKey{string(w.Plugin), w.Undoes()}
	if old != nil || s.vols[vol] || s.busy[kind] >= s.x.atOnce(w.Plugin) {
		return s.report(&wire.ControllerResult{
			Kind:       w.Kind,
			Subject:    w.Subject,
			Generation: w.Generation,
			Unsent:     true,
		})
	}
	limit := w.Timeout
	if limit <= 0 {
		limit = defaultTimeout
	}
	cctx, cancel := s.x.cfg.Clock.WithTimeout(ctx, limit) // from the beginning of the call on
	j := &job{generation: w.Generation, cancel: cancel}
	if !s.g.Go(w.Kind, func() error { return s.run(ctx, cctx, w, j) }) {
		cancel()
		return nil // the stream is ending
	}
	s.jobs[key] = j
	s.busy[kind]++
	if vol.ExternalID != "" {
		s.vols[vol] = true
	}
	return nil
}

func (x *Executor) atOnce(id ids.Plugin) int {
	return cmp.Or(x.cfg.Plugins.AtOnce(id, plugin.RoleController), x.cfg.Parallel)
}

// run makes one call and reports its end.
func (s *stream) run(ctx, cctx context.Context, w wire.ControllerCall, j *job) error {
	began := time.Now()
	r := s.x.call(cctx, w)
	j.cancel()
	s.mu.Lock()
	delete(s.jobs, callKey{w.Kind, w.Subject})
	delete(s.vols, volume.StagingKey{Plugin: w.Plugin, ExternalID: w.ExternalID()})
	s.busy[kindKey{string(w.Plugin), w.Undoes()}]--
	s.mu.Unlock()
	log := s.x.cfg.Log.With(logkey.Op, w.Kind, logkey.Volume, w.Subject, logkey.Plugin, w.Plugin,
		logkey.Generation, w.Generation, logkey.Took, time.Since(began))
	if r.Err != nil {
		log.Warn("controller call did not succeed", logkey.Error, r.Err.Message)
	} else {
		log.Debug("controller call done")
	}
	if ctx.Err() != nil {
		return nil // the stream is over: the servers know that the end is unknown
	}
	return s.report(r)
}

func (s *stream) report(r *wire.ControllerResult) error {
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
	conn, err := use(x.cfg.Plugins, w.Plugin, w.Provider)
	if err != nil {
		r.Err = callError(err)
		return r
	}
	defer conn.Release()
	r.Err = callError(dispatch(ctx, conn, w, r))
	return r
}

// use returns a connection to the plugin's controller if it is of the provider that the caller means: the servers may
// not have heard yet that another one serves the plugin here.
func use(p instance.Plugins, id ids.Plugin, provider string) (*instance.Connection, error) {
	conn, err := p.Use(id, plugin.RoleController)
	if err != nil {
		return nil, err
	}
	if why := plugin.Foreign(id, provider, conn.Facts.Name); why != "" {
		conn.Release()
		return nil, fault.New(fault.NotReady, "use", `controller plugin "`+string(id)+`"`, why)
	}
	return conn, nil
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
