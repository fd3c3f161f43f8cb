package membership

import (
	"context"
	"time"

	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/port/raftlog"
	"berth/internal/wire"
)

// capacityEvery is how often it is looked whether the one that leads has room for new work: a disk that fills says
// nothing.
const capacityEvery = 5 * time.Second

// Capacity has a server lead that has room for new work, where this one, which leads, refuses it for want of that,
// until ctx ends. Run it on the leader alone.
func (k *Keeper) Capacity(ctx context.Context) error {
	for ; ctx.Err() == nil; retry.Sleep(ctx, capacityEvery) {
		if !k.enter(ctx) {
			return nil
		}
		k.yield(ctx)
		k.exit()
	}
	return nil
}

// yield gives the leadership to one that has room, if this one has none.
func (k *Keeper) yield(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	mine, err := k.Ask(ctx, k.Name)
	if err != nil || mine.Full == "" {
		return
	}
	have, err := k.Raft.Members()
	if err != nil {
		return // it leads no more
	}
	contacts, _, _ := k.Contacts()
	its := map[string]*wire.ProgressReply{}
	for _, m := range have {
		if m.ID == k.Name || !m.Voter || contacts[m.ID].Silent {
			continue
		}
		if p, err := k.Ask(ctx, m.ID); err == nil {
			its[m.ID] = p
		}
	}
	to := roomier(have, its)
	if to == "" {
		return
	}
	k.Log.Warn("this server has no room for new work: another one is to lead", "server", to, "why", mine.Full)
	if err := k.Raft.Transfer(ctx, to); err != nil {
		k.Log.Warn("the leadership could not be given away; it is tried again", "server", to, logkey.Error, err)
	}
}

// roomier is the one with most of the log of those that can lead and would take new work; empty: none would. its is how
// far those are that answer.
func roomier(have []raftlog.Member, its map[string]*wire.ProgressReply) (name string) {
	for _, m := range have {
		p := its[m.ID]
		if p == nil || p.Full != "" || p.Unready != "" || p.Stops || p.Leaves {
			continue
		}
		if name == "" || p.Last > its[name].Last {
			name = m.ID
		}
	}
	return name
}
