package volumes

import (
	"context"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// latest is the record of a volume with what was asked of it while its expansion was under way: other changes don't
// wait for it.
func (k *Keeper) latest(v *volume.Volume) *volume.Volume {
	cur := k.cfg.Store.Snapshot().Volume(nil, v.ID)
	if cur == nil || v.Status.Phase != volume.PhaseExpanding || cur.Status.Phase != v.Status.Phase ||
		cur.Status.Generation != v.Status.Generation || cur.UID != v.UID {
		return v
	}
	return cur
}

// growPause is how soon a node that was asked to grow a volume, and has not reported that it did, is asked again. A
// node keeps the wish, so that it needs no second one; the pause is for what was lost.
const growPause = time.Minute

// growth remembers which nodes were asked to grow a volume. It is no state: a new leader asks anew.
type growth struct {
	mu    sync.Mutex
	asked map[growKey]growAsked
}

type growKey struct {
	vol  volume.ID
	node ids.Node
}

type growAsked struct {
	bytes int64
	next  time.Time // not before
}

// due tells how long a node is not asked again to grow a volume to a size, and that it is asked now where that is
// nothing.
func (g *growth) due(key growKey, bytes int64) (pause time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last, ok := g.asked[key]; ok && last.bytes == bytes {
		if pause = time.Until(last.next); pause > 0 {
			return pause
		}
	}
	if g.asked == nil {
		g.asked = map[growKey]growAsked{}
	}
	g.asked[key] = growAsked{bytes: bytes, next: time.Now().Add(growPause)}
	return 0
}

// forget lets a node be asked at once.
func (g *growth) forget(key growKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.asked, key)
}

// forgetVolume drops what is remembered of a volume that has grown, or is gone.
func (g *growth) forgetVolume(id volume.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key := range g.asked {
		if key.vol == id {
			delete(g.asked, key)
		}
	}
}

// expandOnNodes asks the nodes that have the volume staged, and have not grown it, to grow it there.
func (k *Keeper) expandOnNodes(ctx context.Context, s *state.Snap, v *volume.Volume) reconcile.Result {
	if !v.Status.NodeExpandPending {
		k.grows.forgetVolume(v.ID)
		return reconcile.Done()
	}
	if why := suspension.Call(s, v.Staging(), false); why != nil {
		return reconcile.Again(time.Minute, why.String())
	}
	var again time.Duration
	for i := range s.InventoriesOf(nil, v.Staging()) {
		key := growKey{v.ID, i.Node}
		if !i.Entry.Staging.Exists() || !k.cfg.Dispatch.Connected(i.Node) {
			k.grows.forget(key)
			continue
		}
		if i.Entry.ExpandedTo >= v.Status.Capacity && v.Status.Capacity > 0 {
			continue
		}
		pause := k.grows.due(key, v.Status.Capacity)
		if pause == 0 {
			pause = growPause
			if err := k.expandOnNode(ctx, v, i.Node); err != nil {
				k.cfg.Log.Warn("a node was not asked to grow a volume", logkey.Volume, v.ID.String(), logkey.Node,
					i.Node, logkey.Error, err)
			}
		}
		if again == 0 || pause < again {
			again = pause
		}
	}
	if again == 0 {
		return reconcile.Done()
	}
	return reconcile.Again(again, "a node has not reported yet that it grew the volume")
}

func (k *Keeper) expandOnNode(ctx context.Context, v *volume.Volume, node ids.Node) error {
	r, err := k.cfg.Dispatch.Do(ctx, node, &wire.ControllerCall{
		Kind:       wire.CallNodeExpand,
		Subject:    v.ID.String() + "@" + string(node),
		Generation: v.ModifyIndex,
		Plugin:     v.Spec.Plugin,
		Timeout:    controllerTimeout,
		Volume:     &wire.VolumeArgs{Volume: v.ID, ExternalID: v.Status.ExternalID, Min: v.Status.Capacity},
	})
	if err != nil {
		return err
	}
	if _, err := controllers.Failure(r); err != nil && !fault.Has(err, fault.NotFound) {
		return err
	}
	return nil
}
