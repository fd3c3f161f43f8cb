// Package consultokens owns the tokens by which tasks act in Consul as their services: it has Consul make them for
// nodes that ask, and revoke them when their allocs have ended. Which there are stands in the replicated state from
// before they are made until they are gone, so another leader goes on from there and none is forgotten. Only package
// server makes one.
package consultokens

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/base/redact"
	"berth/internal/base/retry"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/server/fsm"
	commands "berth/internal/server/fsm/consultokens"
	"berth/internal/server/state"
)

// Consul makes and revokes tokens; port/consul implements it.
type Consul interface {
	// ServiceToken makes a token, or finds the one that it made under the same id.
	ServiceToken(ctx context.Context, t *consul.ServiceToken) (redact.Secret, error)
	// Revoke takes a token away; one that is not there is no error.
	Revoke(ctx context.Context, accessor string) error
	// Instances lists the ids of the instances of a service.
	Instances(ctx context.Context, service string) ([]string, error)
}

// Config wires a keeper.
type Config struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Consul   Consul // nil: the servers have none
	Log      *slog.Logger
}

// Bounds: how many tokens are made at once and how many revoked, how long one call of a node may take, how often Consul
// is asked again in it, and how long a token outlives its alloc when a service of that is in Consul still.
const (
	making   = 8
	revoking = 4
	patience = 25 * time.Second
	lingers  = 2 * time.Minute
	look     = 2 * time.Second
)

var pauses = retry.Backoff{Min: 250 * time.Millisecond, Max: 4 * time.Second}

// Keeper makes and revokes tokens.
type Keeper struct {
	cfg  Config
	slot chan struct{}
	loop *reconcile.Loop[key]
}

type key struct {
	alloc ids.Alloc
	task  string
}

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, slot: make(chan struct{}, making)}
	k.loop = reconcile.New(reconcile.Config{
		Name:     "tokens of Consul",
		Parallel: revoking,
		MinPause: time.Second,
		Log:      cfg.Log,
	}, k.pass)
	return k
}

// Run revokes until ctx ends. Run it on the leader only.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{"revoke": k.loop.Run, "allocs": k.watch})
}

// watch asks for a look at each token whose alloc may have ended: at its beginning at all, then at those of allocs that
// changed. One whose alloc was forgotten had one that ended before.
func (k *Keeper) watch(ctx context.Context) error {
	seen := uint64(0)
	for {
		s, w := k.cfg.Store.Snapshot(), state.NewWatch()
		s.Allocs(w, "")
		if s.Index() < seen { // the state was replaced by an older one
			seen = 0
		}
		for t := range s.ConsulTokens(w) {
			a := s.Alloc(nil, t.Alloc)
			if t.ModifyIndex > seen || a == nil || a.ModifyIndex > seen {
				k.loop.Mark(key{t.Alloc, t.Task})
			}
		}
		seen = s.Index()
		if w.Wait(ctx) != nil {
			return nil
		}
	}
}

// pass revokes one token, if its alloc has ended: not before the alloc's services are gone from Consul, for a while,
// and again when none can be made any more.
func (k *Keeper) pass(ctx context.Context, of key) (reconcile.Result, error) {
	s := k.cfg.Store.Snapshot()
	t := s.ConsulToken(nil, of.alloc, of.task)
	if t == nil {
		return reconcile.Done(), nil
	}
	a := s.Alloc(nil, of.alloc)
	if a != nil && !a.ClientTerminal() {
		return reconcile.Done(), nil
	}
	if k.cfg.Consul == nil {
		return reconcile.Result{}, fault.WithHint(
			fault.New(fault.NotReady, "revoke", "the token of Consul of accessor "+t.Accessor,
				"this server has no agent of Consul"),
			"give each server's configuration its consul block again")
	}
	remains, err := k.remains(ctx, t, a)
	if err != nil {
		return reconcile.Result{}, err
	}
	if remains {
		return reconcile.Again(look, "services of its allocation are in Consul"), nil
	}
	if err := k.cfg.Consul.Revoke(ctx, t.Accessor); err != nil {
		return reconcile.Result{}, fault.Note(err, "revoke", "the token of Consul of accessor "+t.Accessor)
	}
	if rest := time.Until(t.Asked.Add(consul.MadeWithin)); rest > 0 {
		return reconcile.Again(rest, "it may be made still, and is looked for again"), nil
	}
	gone, _, err := fsm.Propose[bool](ctx, k.cfg.Proposer,
		&commands.Forget{Alloc: t.Alloc, Task: t.Task, Seen: t.ModifyIndex})
	if err == nil && gone {
		k.cfg.Log.Info("a token of Consul is revoked", logkey.Alloc, t.Alloc, logkey.Task, t.Task, "accessor",
			t.Accessor)
	}
	return reconcile.Done(), err
}

// remains reports whether the alloc's instances of the service are in Consul and may be waited for: they are
// deregistered by their node, and for a lost one by the servers. Who may not see them waits for none.
func (k *Keeper) remains(ctx context.Context, t *consul.ServiceToken, a *alloc.Alloc) (bool, error) {
	if a == nil || time.Since(time.Unix(0, a.ModifyTime)) > lingers {
		return false, nil
	}
	all, err := k.cfg.Consul.Instances(ctx, t.Service)
	if err != nil {
		return false, err
	}
	for _, id := range all {
		if strings.HasPrefix(id, consul.OfAlloc(t.Node, t.Alloc)) {
			return true, nil
		}
	}
	return false, nil
}

// Make has Consul make the token of a task, whose right to it was checked, and returns its secret. It is written down
// first: whatever is under way when this server ends, the next leader revokes it when the alloc ends.
func (k *Keeper) Make(ctx context.Context, t consul.ServiceToken) (redact.Secret, error) {
	if k.cfg.Consul == nil {
		return redact.Secret{}, fault.WithHint(
			fault.New(fault.NotReady, "make", "a token of Consul", "the servers have no agent of Consul"),
			"give the configuration of each server a consul block, with a token that may make others")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case k.slot <- struct{}{}:
		defer func() { <-k.slot }()
	case <-ctx.Done():
		return redact.Secret{}, fault.New(fault.Unavailable, "make", "a token of Consul",
			"Consul is slow: others wait for theirs")
	}
	known, _, err := fsm.Propose[*consul.ServiceToken](ctx, k.cfg.Proposer, &commands.Intend{
		Alloc:    t.Alloc,
		Task:     t.Task,
		Node:     t.Node,
		Service:  t.Service,
		Accessor: ids.New(),
	})
	if err != nil {
		return redact.Secret{}, err
	}
	secret, err := k.ask(ctx, known)
	if err != nil {
		k.cfg.Log.Warn("Consul makes no token for a task", logkey.Alloc, t.Alloc, logkey.Task, t.Task,
			logkey.Error, err)
		return redact.Secret{}, err
	}
	k.cfg.Log.Info("a token of Consul is handed out", logkey.Alloc, t.Alloc, logkey.Task, t.Task, logkey.Node, t.Node,
		"service", t.Service, "accessor", known.Accessor)
	return secret, nil
}

// ask asks Consul, again where that may help, for as long as the call may take.
func (k *Keeper) ask(ctx context.Context, t *consul.ServiceToken) (redact.Secret, error) {
	for failures := 1; ; failures++ {
		secret, err := k.cfg.Consul.ServiceToken(ctx, t)
		if err == nil || !passes(err) || !pauses.Sleep(ctx, failures) {
			return secret, err
		}
	}
}

// passes reports whether an error of Consul may be over in a moment.
func passes(err error) bool {
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.Timeout, fault.Busy, fault.Exhausted:
		return true
	}
	return false
}
