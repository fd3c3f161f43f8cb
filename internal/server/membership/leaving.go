package membership

import (
	"context"
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/model/trust"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// TakeOff takes a server out of the cluster, one at a time, and returns the index of the state in which it is out.
// atOnce tells of another one that was taken off whether the one that leaves did not know of that when it was asked to;
// nil: a person says so, who sees who is there.
//
// Its vote goes first, then the state says that it is removed, then it is taken from the keepers of the log. In a log
// that says that a server is removed it does not vote, whatever was cut short: nobody needs it any more, so that it may
// end as soon as it hears of it. One that has lost its vote alone is a member yet, and is given it again.
func (k *Keeper) TakeOff(ctx context.Context, name string, atOnce func(*trust.Member) bool) (index uint64, err error) {
	if !k.enter(ctx) {
		return 0, fault.Wrap(ctx.Err(), fault.Unavailable, "remove", fmt.Sprintf("server %q", name))
	}
	defer k.exit()
	have, err := k.Raft.Members()
	if err != nil {
		return 0, err
	}
	snap := k.Store.Snapshot()
	m, votes := snap.Member(nil, trust.Server, name), votes(have, name)
	switch known := slices.ContainsFunc(have, func(h raftlog.Member) bool { return h.ID == name }); {
	case m == nil && !known:
		return 0, fault.WithHint(fault.New(fault.NotFound, "find", fmt.Sprintf("server %q", name),
			"it is none of those that keep the log"), `"berth operator raft list-peers" names them`)
	case m != nil && m.Gone():
		return snap.Index(), nil // the answer was lost; what keeps the log follows
	}
	if votes {
		if why := stays(k.beside(ctx, snap, have, name, atOnce)); why != "" {
			return 0, fault.WithHint(fault.New(fault.Conflict, "remove", fmt.Sprintf("server %q", name), why),
				`start those that do not answer, or remove them first; "berth server members" shows them`)
		}
	}
	if name == k.Name {
		if err := k.Raft.Transfer(ctx, ""); err != nil {
			return 0, err
		}
		return 0, wire.NotLeading(k.Name) // the next one takes it off
	}
	return k.takeOff(ctx, name, votes, m)
}

func (k *Keeper) takeOff(ctx context.Context, name string, votes bool, m *trust.Member) (uint64, error) {
	if m == nil { // it is in no list
		return k.Store.Snapshot().Index(), k.remove(ctx, name)
	}
	return k.mark(ctx, &joining.ServerRemove{Name: name}, name, votes)
}

// mark takes a server's vote, and has the state say by a command that it is removed.
func (k *Keeper) mark(ctx context.Context, cmd fsm.Command, name string, votes bool) (uint64, error) {
	if votes {
		if err := k.Raft.Add(ctx, name, false); err != nil {
			return 0, err
		}
	}
	// Until it is known whether that is in the log nobody gives it its vote again.
	_, index, err := k.Proposer.Propose(context.WithoutCancel(ctx), cmd)
	return index, err
}

func votes(have []raftlog.Member, name string) bool {
	return slices.Contains(have, raftlog.Member{ID: name, Voter: true})
}

// beside are the others as they are now: each is asked.
func (k *Keeper) beside(
	ctx context.Context, snap *state.Snap, have []raftlog.Member, name string, atOnce func(*trust.Member) bool,
) (out []Other) {
	if atOnce != nil {
		for m := range snap.Members(nil, trust.Server) {
			if m.ID != name && m.Gone() && atOnce(m) {
				out = append(out, Other{Left: true})
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	contacts, _, _ := k.Contacts()
	g, gctx := lifecycle.NewGroup(ctx)
	rest := make([]Other, 0, len(have))
	for _, h := range have {
		if m := snap.Member(nil, trust.Server, h.ID); h.ID == name || m != nil && m.Gone() {
			continue
		}
		rest = append(rest, Other{Votes: h.Voter})
		o := &rest[len(rest)-1]
		if !h.Voter || contacts[h.ID].Silent {
			continue
		}
		g.Go("ask "+h.ID, func() error {
			its, err := k.Ask(gctx, h.ID)
			o.Answers = err == nil && !its.Stops
			o.Asked = err == nil && its.Leaves
			return nil
		})
	}
	_ = g.Wait() // none of them fails
	return append(out, rest...)
}

// enter waits until nobody else changes who keeps the log.
func (k *Keeper) enter(ctx context.Context) bool {
	k.once.Do(func() { k.lock = make(chan struct{}, 1) })
	select {
	case <-ctx.Done():
		return false
	case k.lock <- struct{}{}:
		return true
	}
}

func (k *Keeper) exit() { <-k.lock }
