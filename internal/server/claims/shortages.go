package claims

import (
	"context"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/base/retry"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/shortages"
	"berth/internal/server/state"
)

// shortagePause is how long a node that had no room gets no other volume of the plugin: longer with each refusal.
var shortagePause = retry.Backoff{Min: time.Minute, Max: 30 * time.Minute}

// exhausted stores that a node has no room for a volume: what waits for it there is placed elsewhere, and nothing of
// the plugin is placed there for a while.
func (k *Keeper) exhausted(ctx context.Context, a *volume.Attachment) error {
	key := shortageOf(a)
	tries := 1
	if old := k.cfg.Store.Snapshot().Shortage(nil, key); old != nil {
		tries = old.Tries + 1
	}
	pause := shortagePause.Spread(tries, string(key.Node)+string(key.Plugin))
	n := *a
	n.NextTry = k.rests.For(a.Key(), pause) // of what can go nowhere else
	_, _, err := fsm.Propose[*volume.Attachment](ctx, k.cfg.Proposer, &shortages.AttachRefused{
		Attachment: &n,
		Seen:       a.ModifyIndex,
		Until:      k.waits.For(key, pause),
		Seed:       ids.New(),
	})
	return err
}

// refuse stores that the provider permanently refuses to attach a volume to a node as it is asked for. The same is not
// asked again: what waits for it there is placed elsewhere, and the volume is not given to the node for that use until
// something is another.
func (k *Keeper) refuse(ctx context.Context, a *volume.Attachment, basis string) error {
	n := *a
	n.Tries = 0 // none follows
	n.NextTry = time.Time{}
	_, _, err := fsm.Propose[*volume.Attachment](ctx, k.cfg.Proposer, &shortages.AttachRefused{
		Attachment: &n,
		Seen:       a.ModifyIndex,
		Seed:       ids.New(),
		Basis:      basis,
		Use:        volume.Wish(a.AccessMode, a.AttachmentMode, a.MountOptions),
	})
	return err
}

// refused tells whether the provider has permanently refused what would be asked of it now.
func refused(s *state.Snap, a *volume.Attachment) bool {
	r := s.Shortage(nil, plugin.ShortageKey{Node: a.Node, Plugin: a.Plugin, ExternalID: a.ExternalID})
	return r != nil && r.Use == volume.Wish(a.AccessMode, a.AttachmentMode, a.MountOptions) &&
		r.Basis == attaching.Basis(s, nil, a.Staging(), a.Node)
}

func shortageOf(a *volume.Attachment) plugin.ShortageKey {
	return plugin.ShortageKey{Node: a.Node, Plugin: a.Plugin}
}

// relieve says that a node has room again: a volume left it, or one was attached.
func (k *Keeper) relieve(ctx context.Context, a *volume.Attachment) {
	if s := k.cfg.Store.Snapshot().Shortage(nil, shortageOf(a)); s != nil {
		k.endShortage(ctx, s, true)
	}
}

func (k *Keeper) endShortage(ctx context.Context, s *plugin.Shortage, forget bool) {
	_, _, err := k.cfg.Proposer.Propose(ctx,
		&shortages.ShortageEnd{Key: s.ShortageKey, Seen: s.ModifyIndex, Forget: forget})
	if err != nil && ctx.Err() == nil { // it ends by itself when its time is over
		k.cfg.Log.Warn("that a node has room again cannot be stored", logkey.Node, s.Node, logkey.Plugin, s.Plugin,
			logkey.Error, err)
	}
}

// watchShortages marks every shortage whenever one changed, or the nodes did.
func (k *Keeper) watchShortages(ctx context.Context) error {
	for {
		w := state.NewWatch()
		s := k.cfg.Store.Snapshot()
		for x := range s.Shortages(w) {
			s.Node(w, x.Node)
			if x.ExternalID != "" {
				attaching.Basis(s, w, volume.StagingKey{Plugin: x.Plugin, ExternalID: x.ExternalID}, x.Node)
			}
			k.shortages.Mark(x.ShortageKey)
		}
		if err := w.Wait(ctx); err != nil {
			return nil
		}
	}
}

// endShortages ends a shortage when its time is over, and forgets one whose node is gone, or a refusal whose basis is.
func (k *Keeper) endShortages(ctx context.Context, key plugin.ShortageKey) (reconcile.Result, error) {
	snap := k.cfg.Store.Snapshot()
	s := snap.Shortage(nil, key)
	switch {
	case s == nil:
		return reconcile.Done(), nil
	case snap.Node(nil, key.Node) == nil:
		k.endShortage(ctx, s, true)
	case s.ExternalID != "":
		// Whoever changes the basis marks the volume, too: it is attached by that.
		id := volume.StagingKey{Plugin: key.Plugin, ExternalID: key.ExternalID}
		if attaching.Basis(snap, nil, id, key.Node) != s.Basis {
			k.endShortage(ctx, s, true)
		}
	case s.Over:
	default:
		if left := k.waits.Left(key, s.Until); left > 0 {
			return reconcile.Again(left, s.Reason), nil
		}
		k.endShortage(ctx, s, false)
	}
	return reconcile.Done(), nil
}
