// Package identities owns the signed identities of the node's tasks: it asks the servers for them, and anew before they
// end, and remembers when that is due. Where a task finds them, and what a new one does to it, is its hook's. Package
// client composes it, taskhooks use it.
package identities

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/base/redact"
	"berth/internal/model/job"
	"berth/internal/port/kv"
)

// Of names an identity of a task on this node.
type Of struct {
	Alloc ids.Alloc
	Task  string
	Name  string
}

// key is its place in the node's store.
func (o Of) key() string { return strings.Join([]string{string(o.Alloc), o.Task, o.Name}, "/") }

// Signed is an identity that the servers have signed.
type Signed struct {
	Token redact.Secret
	Lives time.Duration // 0: as long as the allocation runs
}

// Signer asks the servers for identities of one task, by their names and in their order.
type Signer interface {
	Sign(ctx context.Context, id ids.Alloc, task string, names []string) ([]Signed, error)
}

// Holder has a task find a new identity in the place of the one before, and acts on it as the job says.
type Holder interface {
	Renewed(ctx context.Context, id *job.WorkloadIdentity, token redact.Secret) error
}

// Config wires a keeper.
type Config struct {
	Signer Signer
	Store  *kv.Store
	Log    *slog.Logger
}

// Keeper has the identities renewed. Its methods may be called from every goroutine.
type Keeper struct {
	cfg  Config
	loop *reconcile.Loop[Of]

	mu   sync.Mutex
	held map[Of]*held
}

// held is an identity that a task has.
type held struct {
	id     *job.WorkloadIdentity
	holder Holder
	token  redact.Secret // empty: signed in an earlier run of the agent; the task has it, and nobody else
	times  times
	owed   bool // the task has the one before
}

// times is what the store remembers: nothing that is secret.
type times struct {
	Renew time.Time // when another one is due; zero: never
	Ends  time.Time
}

const bucket = "client-identities"

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, held: map[Of]*held{}}
	k.loop = reconcile.New(reconcile.Config{Name: "identities of tasks", Log: cfg.Log}, k.pass)
	return k
}

// Run renews until ctx ends.
func (k *Keeper) Run(ctx context.Context) error { return k.loop.Run(ctx) }

// Tokens are the identities that a task which is about to start finds, by their names: those that it had before, if
// they are good for some time, and new ones. From then on they are renewed. Without the servers it is not ready.
func (k *Keeper) Tokens(
	ctx context.Context, alloc ids.Alloc, task string, wanted []*job.WorkloadIdentity, h Holder,
) (map[string]redact.Secret, error) {
	out := map[string]redact.Secret{}
	var missing []string
	for _, id := range wanted {
		if token := k.good(Of{alloc, task, id.Name}, h); !token.Empty() {
			out[id.Name] = token
		} else {
			missing = append(missing, id.Name)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	signed, err := k.cfg.Signer.Sign(ctx, alloc, task, missing)
	if err != nil {
		return nil, notReady(err)
	}
	for i, name := range missing {
		id := wanted[slices.IndexFunc(wanted, func(id *job.WorkloadIdentity) bool { return id.Name == name })]
		out[name] = signed[i].Token
		next := &held{id: id, holder: h, token: signed[i].Token, times: timesOf(signed[i].Lives)}
		if err := k.hold(Of{alloc, task, name}, next); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// notReady keeps a task waiting for servers that cannot be asked; what they refuse is refused.
func notReady(err error) error {
	switch fault.KindOf(err) {
	case fault.Denied, fault.Invalid, fault.Unsupported:
		return err
	}
	return fault.WithHint(fault.Wrap(err, fault.NotReady, "", ""), "it waits until the servers sign its identities")
}

// good is the token of an identity that is not due to be renewed; empty: there is none.
func (k *Keeper) good(of Of, h Holder) redact.Secret {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.held[of]
	if was == nil || was.times.due(time.Now()) {
		return redact.Secret{}
	}
	was.holder, was.owed = h, false // the start that asks has the task find it
	return was.token
}

func (t times) due(now time.Time) bool { return !t.Renew.IsZero() && !now.Before(t.Renew) }

// Adopt goes on with the identities of a task that was found running. What it has it keeps until it is due; of one that
// nothing is remembered of, it is due now.
func (k *Keeper) Adopt(alloc ids.Alloc, task string, wanted []*job.WorkloadIdentity, h Holder) error {
	for _, id := range wanted {
		of := Of{alloc, task, id.Name}
		if k.has(of, h) || id.TTL == 0 {
			continue
		}
		was := &held{id: id, holder: h, times: times{Renew: time.Now()}}
		err := k.cfg.Store.View(func(tx *kv.Tx) error {
			_, err := tx.Get(bucket, of.key(), &was.times)
			return err
		})
		if err != nil {
			return err
		}
		k.mu.Lock()
		k.held[of] = was
		k.mu.Unlock()
		k.loop.Mark(of)
	}
	return nil
}

// has tells whether an identity is kept already, and hands it to the present holder.
func (k *Keeper) has(of Of, h Holder) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.held[of]
	if was != nil {
		was.holder = h
	}
	return was != nil
}

// hold remembers when an identity is due, and has it renewed then.
func (k *Keeper) hold(of Of, h *held) error {
	if err := k.remember(of, h); err != nil {
		return err
	}
	k.mu.Lock()
	k.held[of] = h
	k.mu.Unlock()
	k.loop.Mark(of)
	return nil
}

func timesOf(lives time.Duration) times {
	if lives <= 0 {
		return times{}
	}
	now := time.Now()
	return times{Renew: now.Add(half(lives)), Ends: now.Add(lives)}
}

// half is when an identity is renewed: in the middle of its life, less up to a tenth of it, so that those that were
// signed together don't come back together.
func half(lives time.Duration) time.Duration {
	return lives/2 - time.Duration(rand.Int64N(int64(lives)/10+1))
}

// Drop forgets the identities of a task that will not start again.
func (k *Keeper) Drop(alloc ids.Alloc, task string, had []*job.WorkloadIdentity) error {
	lasting := false
	k.mu.Lock()
	for _, id := range had {
		of := Of{alloc, task, id.Name}
		delete(k.held, of)
		k.loop.Forget(of)
		lasting = lasting || id.TTL > 0
	}
	k.mu.Unlock()
	if !lasting {
		return nil
	}
	return k.cfg.Store.Update(func(tx *kv.Tx) error {
		for _, id := range had {
			if err := tx.Delete(bucket, Of{alloc, task, id.Name}.key()); err != nil {
				return err
			}
		}
		return nil
	})
}

// pass renews one identity if it is due, and has its task find it.
func (k *Keeper) pass(ctx context.Context, of Of) (reconcile.Result, error) {
	k.mu.Lock()
	h := k.held[of]
	k.mu.Unlock()
	if h == nil || h.times.Renew.IsZero() {
		return reconcile.Done(), nil
	}
	if h.times.due(time.Now()) {
		signed, err := k.cfg.Signer.Sign(ctx, of.Alloc, of.Task, []string{of.Name})
		if err != nil {
			k.sayEnded(of, h, err)
			return reconcile.Result{}, err
		}
		if h = k.renew(of, h, signed[0]); h == nil {
			return reconcile.Done(), nil
		}
	}
	if err := k.deliver(ctx, of, h); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Again(time.Until(h.times.Renew), "it is good until then"), nil
}

func (k *Keeper) sayEnded(of Of, h *held, err error) {
	if !h.times.Ends.IsZero() && !time.Now().Before(h.times.Ends) {
		k.cfg.Log.Warn("an identity of a task has ended before it was renewed", logkey.Alloc, of.Alloc, logkey.Task,
			of.Task, "identity", of.Name, logkey.Error, err)
	}
}

// renew keeps a new identity in the place of the one before, for a start of the task that comes meanwhile to find it.
// nil: the task is gone.
func (k *Keeper) renew(of Of, was *held, s Signed) *held {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.held[of]
	if now == nil {
		return nil
	}
	next := &held{
		id:     was.id,
		holder: now.holder,
		token:  s.Token,
		times:  timesOf(s.Lives),
		owed:   true,
	}
	k.held[of] = next
	return next
}

// deliver has the task find an identity that it has not yet, and then remembers it: after a crash in between another
// one is signed, and none is remembered that the task has not.
func (k *Keeper) deliver(ctx context.Context, of Of, h *held) error {
	k.mu.Lock()
	owed := h.owed && k.held[of] == h
	k.mu.Unlock()
	if !owed {
		return nil
	}
	if err := h.holder.Renewed(ctx, h.id, h.token); err != nil {
		return err
	}
	k.mu.Lock()
	h.owed = false
	k.mu.Unlock()
	return k.remember(of, h)
}

func (k *Keeper) remember(of Of, h *held) error {
	if h.times.Renew.IsZero() {
		return nil
	}
	return k.cfg.Store.Update(func(tx *kv.Tx) error { return tx.Put(bucket, of.key(), h.times) })
}
