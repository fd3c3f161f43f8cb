package keyring

import (
	"cmp"
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/model/datakey"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/state"
)

// Ages say when keys are collected that are of no use any more, and when another one is made. Zero fields take the
// defaults, but for Rotate: zero is never.
type Ages struct {
	Every  time.Duration // between two looks
	Kept   time.Duration // how long a key stays, at least, after the next one came
	Rotate time.Duration // how old the active key may become
}

// DefaultAges look every ten minutes for keys that were followed by another an hour ago.
var DefaultAges = Ages{Every: 10 * time.Minute, Kept: time.Hour}

// Age makes another key when the active one is too old, and removes what is of no use any more, until ctx ends. Run it
// on the leader alone.
func (k *Keys) Age(ctx context.Context) error {
	ages := k.Ages
	ages.Every, ages.Kept = cmp.Or(ages.Every, DefaultAges.Every), cmp.Or(ages.Kept, DefaultAges.Kept)
	tick := time.NewTicker(ages.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := k.age(ctx, ages, time.Now()); err != nil && ctx.Err() == nil {
			k.Log.Warn("the keys of the cluster could not be looked after; trying again", logkey.Error, err)
		}
	}
}

func (k *Keys) age(ctx context.Context, ages Ages, now time.Time) error {
	s := k.Store.Snapshot()
	active := s.ActiveDataKey(nil)
	if active == nil {
		return nil
	}
	if ages.Rotate > 0 && now.Sub(active.Created) >= ages.Rotate {
		key, _, err := k.Rotate(ctx, true)
		if err != nil {
			return err
		}
		k.Log.Info("the cluster has another key: the one before was too old", "key", key.ID, "before", active.ID)
	}
	for key := range s.DataKeys(nil) {
		if !useless(s, key, now, ages.Kept) {
			continue
		}
		err := k.retire(ctx, key.ID)
		switch {
		case fault.Has(err, fault.Conflict), fault.Has(err, fault.NotFound): // it is in use again, or was removed
		case err != nil:
			return err
		default:
			k.Log.Info("a key was removed that nothing needs any more", "key", key.ID)
		}
	}
	return nil
}

// retire removes a data key. The signing key that came with it, and goes with it, may be sealed with it.
func (k *Keys) retire(ctx context.Context, id string) error {
	cmd := k.Keyring.reseal(k.Store.Snapshot(), nil, func(by string) bool { return by == id })
	if len(cmd.Entries) > 0 {
		if _, _, err := k.Proposer.Propose(ctx, cmd); err != nil {
			return err
		}
	}
	_, err := k.Remove(ctx, id)
	return err
}

// useless tells of a key that nothing else is sealed with, and nobody shows what it has signed, whether the next one
// has been there for an age.
func useless(s *state.Snap, key *datakey.Key, now time.Time, age time.Duration) bool {
	if key.State == datakey.Active {
		return false
	}
	var next time.Time
	for k := range s.DataKeys(nil) {
		if k.CreateIndex > key.CreateIndex && (next.IsZero() || k.Created.Before(next)) {
			next = k.Created
		}
	}
	if next.IsZero() || now.Sub(next) < age {
		return false
	}
	for _, e := range keys.Entries(s, nil) {
		if datakey.Under(e.Sealed, key.ID) && (e.Kind != keys.SigningKey || e.Name != key.ID) {
			return false
		}
	}
	return keys.Believed(s, key.ID, now) == 0
}
