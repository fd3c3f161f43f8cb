package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	model "berth/internal/model/autopilot"
	"berth/internal/model/trust"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Raft is the log, as far as who keeps it goes.
type Raft interface {
	Members() ([]raftlog.Member, error)
	Add(ctx context.Context, id string, voter bool) error
	Remove(ctx context.Context, id string) error
	Transfer(ctx context.Context, id string) error
	Progress() (raftlog.Progress, error)
}

// Keeper has the log kept by the servers of the list. Run it on the leader alone.
type Keeper struct {
	Name  string // of this server
	Store *state.Store
	Raft  Raft
	// Raise lets the newest commands be proposed.
	Raise func(ctx context.Context) error
	// Ask asks a server how far it is.
	Ask func(ctx context.Context, server string) (*wire.ProgressReply, error)
	// Contacts are whether the others answer: see raftlog.Log.
	Contacts func() (of map[string]raftlog.Contact, since time.Time, changed <-chan struct{})
	Proposer fsm.Proposer
	Expect   int // servers that the cluster is to have; 0: not said
	Log      *slog.Logger

	once sync.Once
	lock chan struct{} // holds who changes the servers that keep the log

	said   string               // of what stands in the way
	kept   string               // why a silent server was last not taken off
	seen   int                  // voters, when too few were last spoken of
	steady map[string]time.Time // since when one that does not vote yet is well, and others, if they were not
}

// Bounds of the keeper.
const (
	askTimeout = 5 * time.Second
	// behind is how many entries a server may lack when it becomes a voter: it gets them within a moment.
	behind = 64
	// often is how often one that does not vote yet is asked.
	often = 2 * time.Second
)

// errWaits is why a step is looked at again although nothing changed.
var errWaits = errors.New("a server does not vote yet")

// Run keeps the members of the log until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	k.steady = nil // it is of this term
	for tries := 1; ; {
		snap, w := k.Store.Snapshot(), state.NewWatch()
		_, _, changed := k.Contacts()
		w.Add(changed)
		more, look, err := k.step(ctx, snap, w)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			k.say(err)
			pause := again.Jittered(tries)
			if errors.Is(err, errWaits) {
				pause = min(pause, often)
			}
			wait(ctx, w, pause)
			tries++
			continue
		}
		tries = 1
		k.say(nil)
		switch {
		case more:
		case look > 0:
			wait(ctx, w, look)
		case w.Wait(ctx) != nil:
			return nil
		}
	}
}

// wait waits for what comes first.
func wait(ctx context.Context, w *state.Watch, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	_ = w.Wait(ctx) // either is looked at
}

func (k *Keeper) say(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != k.said {
		if errors.Is(err, errWaits) {
			k.Log.Info("a server is to vote; it is waited for", logkey.Error, err)
		} else {
			k.Log.Warn("the servers that keep the log are not those of the list; it is tried again", logkey.Error, err)
		}
	}
	k.said = text
}

// step makes one change. more: there may be another to make; look: when to look again, if nothing changes before.
func (k *Keeper) step(
	ctx context.Context, snap *state.Snap, w *state.Watch,
) (more bool, look time.Duration, err error) {
	if !k.enter(ctx) {
		return false, 0, ctx.Err()
	}
	defer k.exit()
	have, err := k.Raft.Members()
	if err != nil {
		return false, 0, err
	}
	if name := k.leaves(snap, w, have); name != "" {
		return true, 0, k.remove(ctx, name)
	}
	by := snap.Autopilot(w)
	waits, more, err := k.take(ctx, snap, w, by, have)
	if more || err != nil {
		return more, 0, err
	}
	if more, look, err = k.dead(ctx, snap, by, have); more || err != nil {
		return more, 0, err
	}
	k.expected(have)
	if waits != nil {
		return false, 0, waits
	}
	more, err = k.raise(ctx, snap, have)
	return more, look, err
}

// take makes servers of the list members, and voters once they have been well for long enough; at once, where fewer
// vote than there are to be. waits: why one is not yet.
func (k *Keeper) take(
	ctx context.Context, snap *state.Snap, w *state.Watch, by *model.Config, have []raftlog.Member,
) (waits error, more bool, err error) {
	list, _ := List(snap, w)
	for _, s := range list {
		i := slices.IndexFunc(have, func(m raftlog.Member) bool { return m.ID == s.Name })
		switch {
		case s.Address == "":
		case i < 0:
			k.Log.Info("a server joins; it catches up before it votes", "server", s.Name, "address", s.Address)
			return nil, true, k.Raft.Add(ctx, s.Name, false)
		case !have[i].Voter:
			steady := by.Stabilization
			if voting(have) < k.Expect {
				steady = 0 // the cluster is being built: each that votes makes it safer
			}
			if err := k.ready(ctx, steady, s.Name); err != nil {
				waits = err
				continue
			}
			if err := k.Raft.Add(ctx, s.Name, true); err != nil {
				return nil, true, err
			}
			k.restart(s.Name) // as one that votes
			k.Log.Info("a server votes", "server", s.Name)
			return nil, true, nil
		}
	}
	return waits, false, nil
}

// ready says why a server must not vote yet: it has not caught up, or has not for long enough.
func (k *Keeper) ready(ctx context.Context, steady time.Duration, name string) error {
	contacts, _, _ := k.Contacts()
	err := k.caughtUp(ctx, name)
	if err != nil || contacts[name].Silent {
		delete(k.steady, name)
		return cmp.Or(err, errWaits)
	}
	if k.steady[name].IsZero() {
		k.restart(name)
	}
	if time.Since(latest(k.steady[name], contacts[name].Since)) < steady {
		return fault.Wrap(fmt.Errorf("%w: it is to be well for %s", errWaits, steady), fault.NotReady,
			"let vote", fmt.Sprintf("server %q", name))
	}
	return nil
}

// leaves is a server that keeps the log and was removed, this one last; empty: there is none.
func (k *Keeper) leaves(snap *state.Snap, w *state.Watch, have []raftlog.Member) string {
	name := ""
	for _, m := range have {
		if r := snap.Member(w, trust.Server, m.ID); r != nil && r.Gone() && (name == "" || name == k.Name) {
			name = m.ID
		}
	}
	return name
}

func (k *Keeper) remove(ctx context.Context, name string) error {
	if name == k.Name {
		k.Log.Warn("this server was removed: another one leads from here on")
		return k.Raft.Transfer(ctx, "")
	}
	if err := k.Raft.Remove(ctx, name); err != nil {
		return err
	}
	k.Log.Warn("a server was removed", "server", name)
	return nil
}

// caughtUp says why a server must not vote yet.
func (k *Keeper) caughtUp(ctx context.Context, name string) error {
	mine, err := k.Raft.Progress()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	its, err := k.Ask(ctx, name)
	switch {
	case err != nil:
		return fault.Wrap(errors.Join(errWaits, err), fault.Unavailable, "ask", "server "+name)
	case its.Last+behind < mine.Last || its.Applied+behind < mine.Last:
		return fault.Wrap(errWaits, fault.NotReady, "let vote", fmt.Sprintf("server %q", name))
	case its.Unready != "":
		return fault.Wrap(fmt.Errorf("%w: %s", errWaits, its.Unready), fault.NotReady, "let vote",
			fmt.Sprintf("server %q", name))
	}
	return nil
}

// expected says that there are too few servers.
func (k *Keeper) expected(have []raftlog.Member) {
	now := voting(have)
	if now < k.Expect && now != k.seen {
		k.Log.Warn(fmt.Sprintf("the cluster expects %d servers and has %d: it works, and the loss of one may end it",
			k.Expect, now), "hint", "berth operator join-token create -role server")
	}
	k.seen = now
}

// voting is how many of the log's members vote.
func voting(have []raftlog.Member) (n int) {
	for _, m := range have {
		if m.Voter {
			n++
		}
	}
	return n
}

// raise lets new commands be proposed once every server understands them.
func (k *Keeper) raise(ctx context.Context, snap *state.Snap, have []raftlog.Member) (more bool, err error) {
	m := snap.Meta(nil)
	if m == nil || m.Schema >= fsm.Schema() {
		return false, nil
	}
	for _, s := range have {
		if s.ID == k.Name {
			continue
		}
		actx, cancel := context.WithTimeout(ctx, askTimeout)
		its, err := k.Ask(actx, s.ID)
		cancel()
		switch {
		case err != nil:
			return false, fault.Note(err, "raise the schema, which needs", "server "+s.ID)
		case its.Schema < fsm.Schema():
			return false, fault.WithHint(
				fault.New(fault.NotReady, "raise the schema", "", "server "+s.ID+" is of an older version"),
				"upgrade every server")
		}
	}
	return true, k.Raise(ctx)
}
