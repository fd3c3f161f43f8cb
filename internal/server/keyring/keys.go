package keyring

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/redact"
	"berth/internal/model/datakey"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/state"
)

// Keys sees to the data keys of the cluster: that there is one, that every server can open all of them, and that
// nothing is sealed with the key of one server alone.
type Keys struct {
	Keyring  *Keyring
	Store    *state.Store
	Proposer fsm.Proposer
	Name     string // of this server
	Recovery Recovery
	Ages     Ages
	Dev      bool // nobody keeps a key of what is gone with the process
	Log      *slog.Logger
}

// What is sealed anew in one command is bounded, in entries and in bytes: a variable may be as large as many secrets.
const (
	maxResealed      = 256
	maxResealedBytes = 1 << 20
)

// Begin makes the first data key, when the cluster has none and every server knows them. What was sealed before was
// sealed with the key of one server.
func (k *Keys) Begin(ctx context.Context) error {
	s := k.Store.Snapshot()
	if m := s.Meta(nil); m == nil || m.Schema < keys.Schema || s.ActiveDataKey(nil) != nil {
		return nil
	}
	put, err := k.first(s)
	if err != nil {
		return err
	}
	_, _, err = k.Proposer.Propose(ctx, put)
	return err
}

// first makes the first data key. Where nobody has said what the recovery keys are, one is made, for people to keep.
func (k *Keys) first(s *state.Snap) (*keys.Put, error) {
	to := k.recipients(s, nil)
	if !k.Recovery.Said && !k.Dev {
		public, err := k.Keyring.makeRecovery()
		if err != nil {
			return nil, err
		}
		to = append(to, recoveryRecipient(public))
	}
	put, _, err := newDataKey(s, firstID(s), to)
	return put, err
}

// remind says where a recovery key lies that nobody has taken to a safe place, and of one that is none what it is.
func (k *Keys) remind(s *state.Snap) {
	path := k.Keyring.recoveryPath()
	switch there, err := CheckRecovery(filepath.Dir(path), s); {
	case err != nil:
		k.Log.Warn("the recovery key in this file does not open the secrets of the cluster", "file", path,
			logkey.Error, err)
	case there:
		k.Log.Warn("this file opens every secret of the cluster when all servers are lost: move it to a safe place, "+
			"off this machine", "file", path)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// firstID is that of the key that the cluster signs with, so that they are one pair in listings, and go together.
func firstID(s *state.Snap) string {
	for k := range s.SigningKeys(nil) {
		if ids.IsUUID(k.ID) {
			return k.ID
		}
	}
	return ids.New()
}

// Run keeps them so until ctx ends. Run it on the leader alone.
func (k *Keys) Run(ctx context.Context) error {
	reminded := false
	for {
		s, w := k.Store.Snapshot(), state.NewWatch()
		next, err := k.next(s, w)
		switch {
		case err != nil:
			k.Log.Error("this server cannot give the data keys to others", logkey.Error, err)
		case next != nil:
			if _, _, err := k.Proposer.Propose(ctx, next); err != nil {
				return ended(ctx, err)
			}
			continue
		}
		if !reminded && s.ActiveDataKey(nil) != nil {
			k.remind(s)
			reminded = true
		}
		if w.Wait(ctx) != nil {
			return nil
		}
	}
}

// ended is nothing where the work was told to end.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// next is what is to be done first, or nil.
func (k *Keys) next(s *state.Snap, w *state.Watch) (fsm.Command, error) {
	m := s.Meta(w)
	if m == nil || m.Schema < keys.Schema {
		return nil, nil
	}
	if me := s.Member(w, trust.Server, k.Name); me != nil && me.Gone() {
		return nil, nil // another server leads in a moment
	}
	all := k.recipients(s, w)
	if s.ActiveDataKey(w) == nil {
		return k.first(s)
	}
	missing, err := k.Keyring.missing(s, all)
	if err != nil {
		return nil, err
	}
	if len(missing.Wraps) > 0 {
		return missing, nil
	}
	if surplus := k.Recovery.surplus(s); surplus != nil {
		return surplus, nil
	}
	if reseal := k.Keyring.reseal(s, w, func(id string) bool { return id == "" }); len(reseal.Entries) > 0 {
		return reseal, nil
	}
	return nil, nil
}

// recipients are who data keys are for, this server among them.
func (k *Keys) recipients(s *state.Snap, w *state.Watch) []datakey.Recipient {
	return k.Recovery.apply(appendSelf(recipients(s, w), datakey.Recipient{
		Holder: datakey.Holder{Kind: datakey.Server, Name: k.Name},
		Public: k.Keyring.Public(),
	}))
}

// appendSelf puts a server into the place of who has its name: it knows best what its own key is.
func appendSelf(in []datakey.Recipient, self datakey.Recipient) []datakey.Recipient {
	others := slices.DeleteFunc(in, func(r datakey.Recipient) bool { return r.Holder == self.Holder })
	return append(others, self)
}

// newDataKey makes a key and wraps it for recipients.
func newDataKey(s *state.Snap, id string, to []datakey.Recipient) (cmd *keys.Put, plain []byte, err error) {
	plain = make([]byte, keySize)
	_, _ = rand.Read(plain) // crypto/rand.Read never fails
	cmd = &keys.Put{ID: id}
	if active := s.ActiveDataKey(nil); active != nil {
		cmd.After = active.ID
	}
	for _, r := range to {
		w, err := wrap(s.Meta(nil).ClusterID, id, plain, r)
		if err != nil {
			return nil, nil, err
		}
		cmd.Wraps = append(cmd.Wraps, w)
	}
	return cmd, plain, nil
}

// reseal seals anew, with the active data key, what is sealed with the keys that are asked for; a server's own key has
// the empty id. It takes some at a time: what it does not return is left, too. What cannot be opened stays as it is.
func (k *Keyring) reseal(s *state.Snap, w *state.Watch, with func(id string) bool) *keys.Reseal {
	out := &keys.Reseal{}
	size := 0
	for _, e := range keys.Entries(s, w) {
		id, _, ok := datakey.Split(e.Sealed)
		if !ok || !with(id) || len(out.Entries) == maxResealed || size > maxResealedBytes {
			continue
		}
		name := entryName(e)
		m, err := k.Open(s, name, e.Sealed)
		if err != nil {
			continue // it is refused, by its name, when it is used
		}
		if e.Sealed, err = k.Seal(s, name, m); err == nil {
			out.Entries = append(out.Entries, e)
			size += len(e.Sealed)
		}
	}
	return out
}

// entryName is what an entry is sealed under.
func entryName(e keys.Entry) string {
	switch e.Kind {
	case keys.Authority:
		return authorityName
	case keys.SigningKey:
		return sealedName(e.Name)
	}
	return e.Name
}

// Rotate makes another data key, with which is sealed from then on, and another key that the cluster signs with. In
// full, what was sealed before is sealed with it, too.
func (k *Keys) Rotate(ctx context.Context, full bool) (*datakey.Key, uint64, error) {
	s := k.Store.Snapshot()
	if s.ActiveDataKey(nil) == nil {
		return nil, 0, fault.WithHint(fault.New(fault.Unavailable, "rotate", "data keys", "the cluster has none yet"),
			"they are made when every server runs this version; try again")
	}
	id := ids.New()
	put, plain, err := newDataKey(s, id, k.recipients(s, nil))
	if err != nil {
		return nil, 0, err
	}
	put.Signing, err = newSigningKey(id, func(name string, m redact.Map) ([]byte, error) {
		return seal(plain, datakey.Head(id), name, m)
	})
	if err != nil {
		return nil, 0, err
	}
	key, index, err := fsm.Propose[*datakey.Key](ctx, k.Proposer, put)
	for left := full; err == nil && left; {
		cmd := k.Keyring.reseal(k.Store.Snapshot(), nil, func(by string) bool { return by != id })
		left = len(cmd.Entries) > 0 // with nothing left, too, it tells which keys are of no use any more
		_, index, err = k.Proposer.Propose(ctx, cmd)
	}
	return key, index, err
}

// Remove forgets a data key with which nothing is sealed.
func (k *Keys) Remove(ctx context.Context, id string) (uint64, error) {
	_, index, err := k.Proposer.Propose(ctx, &keys.Remove{ID: id})
	return index, err
}

// Unwrap takes the wraps of a server away that is gone for good. Make a new key then, too: it may know the others.
func (k *Keys) Unwrap(ctx context.Context, server string) (uint64, error) {
	_, index, err := k.Proposer.Propose(ctx, &keys.Unwrap{
		Holders: []datakey.Holder{{Kind: datakey.Server, Name: server}},
	})
	return index, err
}
