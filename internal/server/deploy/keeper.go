// Package deploy owns what becomes of deployments by time: it watches those that are under way, lets the flow of
// model/deployment judge them by the leader's clock, and records what was decided. What follows at once from how allocs
// stand is done by the commands that change them (server/deploying); it is done here only where none did. Only package
// server runs it.
package deploy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/model/deployment"
	"berth/internal/server/deploying"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/deployments"
	"berth/internal/server/state"
)

// parallel is how many deployments are decided about at a time: each decision waits for the log.
const parallel = 8

// Config wires a keeper.
type Config struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Log      *slog.Logger
}

// Keeper decides about deployments. Run it on the leader only.
type Keeper struct {
	cfg  Config
	loop *reconcile.Loop[ids.Deployment]

	mu     sync.Mutex
	memory map[ids.Deployment]deployment.Memory // of those under way
}

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg}
	k.loop = reconcile.New(reconcile.Config{Name: "deploy", Parallel: parallel, Log: cfg.Log}, k.pass)
	return k
}

// Run decides until ctx ends. What an earlier leader had observed is not known: every deadline begins anew.
func (k *Keeper) Run(ctx context.Context) error {
	k.mu.Lock()
	k.memory = map[ids.Deployment]deployment.Memory{}
	k.mu.Unlock()
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"decide":      k.loop.Run,
		"deployments": k.watchDeployments,
		"allocs":      k.watchAllocs,
	})
}

// watchDeployments asks for a pass over each deployment under way that is new or changed.
func (k *Keeper) watchDeployments(ctx context.Context) error {
	seen := uint64(0)
	for {
		s, w := k.cfg.Store.Snapshot(), state.NewWatch()
		if s.Index() < seen { // the state was replaced by an older one
			seen = 0
		}
		for d := range s.OpenDeployments(w) {
			if d.ModifyIndex > seen {
				k.loop.Mark(d.ID)
			}
		}
		seen = s.Index()
		if w.Wait(ctx) != nil {
			return nil
		}
	}
}

// watchAllocs asks for a pass over the deployment of each job of which allocs changed.
func (k *Keeper) watchAllocs(ctx context.Context) error {
	type ref struct {
		ns  ids.Namespace
		job ids.Job
	}
	seen := k.cfg.Store.Snapshot().Index() // each deployment that is there is looked at anyway
	for {
		s, w := k.cfg.Store.Snapshot(), state.NewWatch()
		s.Allocs(w, "")
		if s.Index() < seen {
			seen = 0
		}
		looked := map[ref]bool{}
		for a := range s.AllocsSince(seen + 1) {
			of := ref{a.Namespace, a.Job}
			if looked[of] {
				continue
			}
			looked[of] = true
			if d := deploying.Active(s, nil, of.ns, of.job); d != nil {
				k.loop.Mark(d.ID)
			}
		}
		seen = s.Index()
		if w.Wait(ctx) != nil {
			return nil
		}
	}
}

// pass looks at one deployment, and records what is decided about it.
func (k *Keeper) pass(ctx context.Context, id ids.Deployment) (reconcile.Result, error) {
	s := k.cfg.Store.Snapshot()
	d := s.Deployment(nil, id)
	if !d.Active() {
		k.keep(id, nil)
		return reconcile.Done(), nil
	}
	f := deploying.FactsOf(s, d)
	f.Now = time.Now()
	f.Memory = k.kept(id)
	v := deployment.Next(f)
	if v.Do == deployment.Fail {
		deploying.Explain(s, f)
		v = deployment.Next(f)
	}
	k.keep(id, v.Memory)
	switch v.Do {
	case deployment.Rest:
		return reconcile.Done(), nil
	case deployment.Await:
		if v.Until.IsZero() {
			return reconcile.Done(), nil
		}
		return reconcile.Again(time.Until(v.Until), "its allocs have time to become healthy"), nil
	}
	return reconcile.Done(), k.decide(ctx, d, v)
}

// decide records what was decided. Where a failure cannot go back to the version before, because that cannot be
// registered any more, it says so and fails all the same.
func (k *Keeper) decide(ctx context.Context, d *deployment.Deployment, v deployment.Result) error {
	cmd := &deployments.End{
		Deployment: d.ID,
		Seen:       d.ModifyIndex,
		Why:        v.Why,
		Revert:     v.Revert,
		Seed:       ids.New(),
	}
	_, _, err := k.cfg.Proposer.Propose(ctx, cmd)
	if v.Revert && (fault.Has(err, fault.Conflict) || fault.Has(err, fault.Invalid) || fault.Has(err, fault.NotFound)) {
		k.cfg.Log.Warn("a deployment that failed is not gone back from", "deployment", d.ID, logkey.Job, d.Job,
			logkey.Error, err)
		again := *cmd
		again.Why, again.Revert = v.Why+" - not rolling back: "+err.Error(), false
		_, _, err = k.cfg.Proposer.Propose(ctx, &again)
	}
	return fault.Note(err, "decide about", "deployment "+string(d.ID))
}

func (k *Keeper) kept(id ids.Deployment) deployment.Memory {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.memory[id]
}

func (k *Keeper) keep(id ids.Deployment, m deployment.Memory) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m == nil {
		delete(k.memory, id)
		return
	}
	k.memory[id] = m
}
