package keeper

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/internal/base/logkey"
	"berth/internal/model/network"
	"berth/internal/port/bridge"
)

// Run releases what no alloc wants, and makes again what others have taken away, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(verifyPeriod)
	defer tick.Stop()
	l := k.follow(ctx)
	defer func() { l.end() }()
	defer k.leave()
	for {
		changed := k.cfg.Owners.Changed()
		if undecided := k.sweep(ctx); !undecided {
			changed = nil
		}
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
				waits = false
			case <-tick.C:
				waits = false
				if l.updates == nil {
					l = k.follow(ctx)
				}
			case u, ok := <-l.updates:
				if !ok { // the kernel had to drop some
					l.end()
					l = k.follow(ctx)
				} else if k.cfg.Bridge.Gone(u) {
					k.verify(true)
				}
			}
		}
		k.verify(false)
	}
}

// links is what the kernel says of the node's links.
type links struct {
	updates <-chan bridge.Update // nil: they are not followed
	stop    context.CancelFunc
}

// end ends it, and reads what is left so that whoever sends ends, too.
func (l links) end() {
	l.stop()
	if l.updates != nil {
		for range l.updates { //nolint:revive // nothing of it is wanted any more
		}
	}
}

// follow begins to follow the node's links, and looks after what was missed before.
func (k *Keeper) follow(ctx context.Context) links {
	ctx, stop := context.WithCancel(ctx)
	updates, err := bridge.Follow(ctx.Done())
	if err != nil {
		k.cfg.Log.Warn("links of allocations that others remove are made again only when the agent starts",
			logkey.Error, err)
		return links{stop: stop}
	}
	k.verify(true)
	return links{updates: updates, stop: stop}
}

// verify makes the bridge and the table again where somebody has removed them, and with all the links that are gone.
func (k *Keeper) verify(all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.others() == 0 {
		return
	}
	there, err := k.cfg.Bridge.Whole()
	if err == nil && there && !all {
		return
	}
	if err == nil && !there {
		k.cfg.Log.Warn("somebody has removed the bridge of the allocations or its nftables table; they are made again",
			"bridge", k.cfg.Bridge.Name)
		k.applied = nil
	}
	var have []string
	if err == nil && there {
		have, err = k.cfg.Bridge.Links()
	}
	for _, id := range slices.Sorted(maps.Keys(k.records)) {
		r := k.records[id]
		if err != nil || !r.bridged() || r.Ending || slices.Contains(have, network.Link(r.Alloc)) {
			continue
		}
		held, look := bridge.IsNamespace(k.place(r, nsName))
		if err = look; !held {
			continue // it is still to be made, by its alloc
		}
		if there {
			k.cfg.Log.Warn("somebody has removed the link of an allocation; it is made again", logkey.Alloc, r.Alloc,
				"link", network.Link(r.Alloc))
		}
		err = k.connect(r)
	}
	if err != nil {
		k.cfg.Log.Error("networks of allocations could not be looked after", logkey.Error, err)
	}
}
