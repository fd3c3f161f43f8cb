// Package gateways owns that Consul knows what the gateways of jobs do: the entries of its configuration. They are
// written by the server that leads, whenever a job was registered that Consul has not heard of or an entry is gone, and
// stay when the job has ended: what another job has written later is not written over. Why one could not be written it
// tells whoever asks. Only package server makes one.
package gateways

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/derive/meshentries"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// Consul has entries of its configuration; port/consul implements it.
type Consul interface {
	EntryMeta(ctx context.Context, kind, name string) (meta map[string]string, there bool, err error)
	WriteEntry(ctx context.Context, entry map[string]any) error
}

// Config wires a keeper.
type Config struct {
	Store  *state.Store
	Consul Consul // nil: the servers have none
	// Newest makes sure that this server still leads, and that its state is what all have acknowledged.
	Newest func(context.Context) error
	Log    *slog.Logger
}

// audit is how often all entries are looked at without an event: those of a Consul that was restored may be gone.
const audit = 5 * time.Minute

// Keeper writes entries.
type Keeper struct {
	cfg Config

	mu     sync.Mutex
	stands map[key]map[meshentries.ID]Standing // of this term, by job
}

type key struct {
	namespace ids.Namespace
	job       ids.Job
}

// Standing is how an entry stands in Consul.
type Standing struct {
	meshentries.ID
	Why   string    // Consul does not have it as its job says; empty: it has
	Since time.Time // it stands so, as far as this leader knows; zero: it has yet to look

	version uint64 // the index of the registration that Consul was last seen to have heard of
}

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper { return &Keeper{cfg: cfg} }

// Run writes until ctx ends. Run it on the leader alone: nothing of it is kept, and the next one looks at all jobs.
func (k *Keeper) Run(ctx context.Context) error {
	k.mu.Lock()
	k.stands = map[key]map[meshentries.ID]Standing{}
	k.mu.Unlock()
	loop := reconcile.New(reconcile.Config{
		Name:     "entries of gateways",
		Parallel: 2,
		MinPause: time.Second,
		MaxPause: 15 * time.Second,
		Log:      k.cfg.Log,
	}, k.pass)
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"write": loop.Run,
		"jobs": func(ctx context.Context) error {
			seen := uint64(0)
			for ctx.Err() == nil {
				s, w := k.cfg.Store.Snapshot(), state.NewWatch()
				if s.Index() < seen { // the state was replaced by an older one
					seen = 0
				}
				for j := range s.JobsWithServices(w, "") {
					if j.JobModifyIndex > seen && len(entries(s, j)) > 0 {
						loop.Mark(key{j.Namespace, j.ID})
					}
				}
				seen = s.Index()
				_ = w.Wait(ctx) // whatever woke it, it looks again
			}
			return nil
		},
	})
}

// entries are those of a job, as this incarnation of the state writes them.
func entries(s *state.Snap, j *job.Job) []meshentries.Entry {
	incarnation := ""
	if m := s.Meta(nil); m != nil {
		incarnation = m.Incarnation
	}
	return meshentries.Of(j, incarnation)
}

// Of is how the entries of a job stand, in the order of its gateways; a job that is to stop wants none.
func (k *Keeper) Of(namespace ids.Namespace, id ids.Job) (out []Standing) {
	s := k.cfg.Store.Snapshot()
	j := s.Job(nil, namespace, id)
	if j == nil || j.Stop {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range entries(s, j) {
		at, there := k.stands[key{namespace, id}][e.ID]
		if !there {
			at = Standing{ID: e.ID, Why: "the server that leads has yet to look"}
		}
		out = append(out, at)
	}
	return out
}

// pass writes what the gateways of one job do. One that can't be written keeps none of the others.
func (k *Keeper) pass(ctx context.Context, of key) (reconcile.Result, error) {
	s := k.cfg.Store.Snapshot()
	j := s.Job(nil, of.namespace, of.job)
	if j == nil || j.Stop {
		k.mu.Lock()
		delete(k.stands, of)
		k.mu.Unlock()
		return reconcile.Done(), nil
	}
	var all []error
	for _, e := range entries(s, j) {
		err := k.bring(ctx, j, e)
		if ctx.Err() != nil {
			return reconcile.Done(), nil
		}
		k.note(of, e.ID, j.JobModifyIndex, err)
		all = append(all, err)
	}
	return reconcile.Again(audit, "Consul may be restored"), errors.Join(all...)
}

// bring has Consul have an entry. What somebody else made of it after Consul had heard of this registration stays.
func (k *Keeper) bring(ctx context.Context, j *job.Job, e meshentries.Entry) error {
	if k.cfg.Consul == nil {
		return fault.WithHint(fault.New(fault.NotReady, "write", e.Kind+" "+e.Name+" of job "+string(j.ID),
			"this server has no agent of Consul"), "give the configuration of each server a consul block")
	}
	meta, there, err := k.cfg.Consul.EntryMeta(ctx, e.Kind, e.Name)
	if err != nil {
		return fault.Note(err, "read", e.Kind+" "+e.Name)
	}
	own := e.Own(meta)
	if own && e.Heard(meta) || there && !own && k.heard(j, e.ID) {
		return nil
	}
	if err := k.cfg.Newest(ctx); err != nil {
		return err
	}
	if err := k.cfg.Consul.WriteEntry(ctx, e.Body); err != nil {
		return fault.Note(err, "write", e.Kind+" "+e.Name)
	}
	k.cfg.Log.Info("what a gateway does is written into Consul", logkey.Job, j.ID, "kind", e.Kind, "name", e.Name)
	return nil
}

// heard reports whether Consul was seen in this term to have heard of the registration that a job has now.
func (k *Keeper) heard(j *job.Job, e meshentries.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stands[key{j.Namespace, j.ID}][e].version == j.JobModifyIndex
}

// note keeps what came of a pass.
func (k *Keeper) note(of key, e meshentries.ID, version uint64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was, there := k.stands[of][e]
	now := was
	now.ID, now.Why = e, ""
	if err != nil {
		now.Why = err.Error()
	} else {
		now.version = version
	}
	if !there || (now.Why == "") != (was.Why == "") {
		now.Since = time.Now()
	}
	if k.stands[of] == nil {
		k.stands[of] = map[meshentries.ID]Standing{}
	}
	k.stands[of][e] = now
}
