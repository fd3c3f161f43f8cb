// Package gateways owns that Consul knows what the gateways of jobs do: the entries of its configuration. They are
// written by the server that leads, whenever a job was registered that Consul has not heard of, and stay when the job
// has ended: what another job has written later is not written over. Only package server makes one.
package gateways

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/derive/meshentries"
	"berth/internal/server/state"
)

// Consul has entries of its configuration; port/consul implements it.
type Consul interface {
	EntryMeta(ctx context.Context, kind, name string) (map[string]string, error)
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

// Keeper writes entries.
type Keeper struct{ cfg Config }

type key struct {
	namespace ids.Namespace
	job       ids.Job
}

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper { return &Keeper{cfg} }

// Run writes until ctx ends. Run it on the leader alone: nothing of it is kept, and the next one looks at all jobs.
func (k *Keeper) Run(ctx context.Context) error {
	loop := reconcile.New(reconcile.Config{
		Name:     "entries of gateways",
		Parallel: 2,
		MinPause: time.Second,
		MaxPause: time.Minute,
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
					if j.JobModifyIndex > seen && len(meshentries.Of(j)) > 0 {
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

// pass writes what the gateways of one job do.
func (k *Keeper) pass(ctx context.Context, of key) (reconcile.Result, error) {
	j := k.cfg.Store.Snapshot().Job(nil, of.namespace, of.job)
	if j == nil || j.Stop {
		return reconcile.Done(), nil
	}
	for _, e := range meshentries.Of(j) {
		if k.cfg.Consul == nil {
			return reconcile.Result{}, fault.WithHint(
				fault.New(fault.NotReady, "write", e.Kind+" "+e.Name+" of job "+string(of.job),
					"this server has no agent of Consul"),
				"give the configuration of each server a consul block")
		}
		meta, err := k.cfg.Consul.EntryMeta(ctx, e.Kind, e.Name)
		if err != nil {
			return reconcile.Result{}, fault.Note(err, "read", e.Kind+" "+e.Name)
		}
		if by, err := strconv.ParseUint(meta[meshentries.MetaVersion], 10, 64); err == nil && by >= j.JobModifyIndex {
			continue
		}
		if err := k.cfg.Newest(ctx); err != nil {
			return reconcile.Result{}, err
		}
		if err := k.cfg.Consul.WriteEntry(ctx, e.Body); err != nil {
			return reconcile.Result{}, fault.Note(err, "write", e.Kind+" "+e.Name)
		}
		k.cfg.Log.Info("what a gateway does is written into Consul", logkey.Job, of.job, "kind", e.Kind, "name", e.Name)
	}
	return reconcile.Done(), nil
}
