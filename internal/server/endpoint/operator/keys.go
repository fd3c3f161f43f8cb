package operator

import (
	"context"
	"slices"

	"berth/internal/model/datakey"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Keys changes the keys that the cluster's secrets are sealed with.
type Keys interface {
	Rotate(ctx context.Context, full bool) (*datakey.Key, uint64, error)
	Remove(ctx context.Context, id string) (uint64, error)
	// Rewrap makes a saved state one that the present servers can open, as far as they or a recovery key open it.
	Rewrap(saved *state.Store, present *state.Snap, recovery string) error
}

func (e *Endpoints) dataKeys(ctx context.Context, q *wire.Query) (*wire.DataKeysReply, error) {
	out := &wire.DataKeysReply{}
	err := e.cfg.Read(ctx, *q, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Keys = nil
		sealed := keys.Entries(s, w)
		for k := range s.DataKeys(w) {
			out.Keys = append(out.Keys, shownKey(k, sealed))
		}
		return max(s.TableIndex(state.DataKeys), s.TableIndex(state.Secrets)), nil
	})
	slices.SortStableFunc(out.Keys, func(a, b wire.DataKey) int { return a.Created.Compare(b.Created) })
	return out, err
}

// shownKey is what people see of a data key: who can open it, not by what.
func shownKey(k *datakey.Key, sealed []keys.Entry) wire.DataKey {
	out := wire.DataKey{Key: *k}
	out.Wraps = nil
	for i := range k.Wraps {
		w := k.Wraps[i]
		w.Sealed = nil
		out.Wraps = append(out.Wraps, w)
	}
	for _, entry := range sealed {
		if datakey.Under(entry.Sealed, k.ID) {
			out.Sealed++
		}
	}
	return out
}

func (e *Endpoints) rotate(ctx context.Context, req *wire.RotateRequest) (*wire.RotateReply, error) {
	k, index, err := e.cfg.Keys.Rotate(ctx, req.Full)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person made a new data key", "key", k.ID, "full", req.Full, "by", req.By)
	return &wire.RotateReply{Key: shownKey(k, keys.Entries(e.cfg.Store.Snapshot(), nil)), Index: index}, nil
}

func (e *Endpoints) removeKey(ctx context.Context, req *wire.DataKeyRequest) (*wire.Written, error) {
	index, err := e.cfg.Keys.Remove(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person removed a data key", "key", req.ID, "by", req.By)
	return &wire.Written{Index: index}, nil
}
