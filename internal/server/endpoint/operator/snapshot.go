package operator

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/savefile"
	model "berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/server/saved"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Restorer replaces the state of the servers: prepare gets the last of the present one, read when nothing works on it
// any more, with the index from which on the next one counts.
type Restorer interface {
	Restore(ctx context.Context, prepare func(present *state.Snap, index uint64) (*state.Snap, error)) error
}

// chunk is how much of a saved state is sent at once.
const chunk = 1 << 20

// save sends the state as it is now.
func (e *Endpoints) save(_ *wire.Empty, stream *wire.Stream[wire.StateChunk, wire.Empty]) error {
	if err := e.cfg.Cluster.Confirm(stream.Context()); err != nil {
		return err
	}
	s := e.cfg.Store.Snapshot()
	m := s.Meta(nil)
	if m == nil {
		return fault.New(fault.Internal, "save", "the servers' state", "the cluster has no identity yet")
	}
	var data bytes.Buffer
	if err := s.Persist(&data); err != nil {
		return err
	}
	out, err := savefile.Encode(savefile.Meta{
		Program:     "berth",
		Time:        time.Now().UTC(),
		ClusterID:   m.ClusterID,
		Incarnation: m.Incarnation,
		Mark:        m.Mark,
		Index:       s.Index(),
		Schema:      m.Schema,
		Counts:      count(s),
		Holders:     holders(s),
	}, data.Bytes())
	if err != nil {
		return err
	}
	for part := range slices.Chunk(out, chunk) {
		if err := stream.Send(&wire.StateChunk{Data: part}); err != nil {
			return err
		}
	}
	return stream.Send(&wire.StateChunk{Last: true})
}

// holders are who can open all that is sealed in a state.
func holders(s *state.Snap) []string {
	var out []string
	for i, k := range slices.Collect(s.DataKeys(nil)) {
		var of []string
		for _, h := range k.Holders() {
			of = append(of, h.String())
		}
		if i > 0 {
			of = slices.DeleteFunc(of, func(h string) bool { return !slices.Contains(out, h) })
		}
		out = of
	}
	return out
}

func count(s *state.Snap) map[string]int {
	out := map[string]int{}
	for range s.Jobs(nil, wire.AllNamespaces, "") {
		out["jobs"]++
	}
	for range s.Allocs(nil, "") {
		out["allocations"]++
	}
	for range s.Nodes(nil, "") {
		out["nodes"]++
	}
	for range s.Volumes(nil, wire.AllNamespaces, "") {
		out["volumes"]++
	}
	for range s.Claims(nil) {
		out["claims"]++
	}
	return out
}

// restore replaces the state by a saved one, which begins a recovery.
func (e *Endpoints) restore(req *wire.RecoveryWord, stream *wire.Stream[wire.Written, wire.StateChunk]) error {
	var file bytes.Buffer
	for {
		c, err := stream.Recv()
		if err != nil {
			return err
		}
		if file.Write(c.Data); file.Len() > savefile.MaxState {
			return fault.New(fault.Exhausted, "restore", "the servers' state",
				fmt.Sprintf("the file is larger than %d MiB", savefile.MaxState>>20))
		}
		if c.Last {
			break
		}
	}
	store, meta, err := saved.Load(&file, e.cfg.Secrets, func(s *state.Store) error {
		return e.cfg.Keys.Rewrap(s, e.cfg.Store.Snapshot(), req.RecoveryKey.RecoveryKey())
	})
	if err != nil {
		return err
	}
	var rec *model.Record
	err = e.cfg.Servers.Restore(stream.Context(), func(present *state.Snap, index uint64) (*state.Snap, error) {
		if err := replaceable(present, store.Snapshot()); err != nil {
			return nil, err
		}
		begin := &recovery.Begin{
			Incarnation: ids.New(),
			Mark:        rand.Text(),
			Cause:       "restored from a snapshot of " + meta.Time.UTC().Format(time.RFC3339),
			By:          req.By,
			Replaced:    recovery.Replacing(present, store.Snapshot().Meta(nil).ClusterID),
			Schema:      fsm.Schema(),
		}
		var err error
		rec, err = recovery.Restored(store, present, index, begin)
		return store.Snapshot(), err
	})
	if err != nil {
		return fault.Note(err, "restore", "the servers' state")
	}
	e.cfg.Log.Warn("the servers' state was replaced by a saved one: nothing is done with a volume before every node "+
		"that may hold it has reported", "saved", meta.Time, "by", req.By, "incarnation", rec.Incarnation, "parent",
		rec.Parent, "nodes", len(rec.Nodes))
	return stream.Send(&wire.Written{Index: rec.Index})
}

// replaceable refuses to replace a cluster that lives by the state of another one. What Berth runs for itself is no
// such life: new servers have it before anybody used them, and the saved state has it, too.
func replaceable(present, saved *state.Snap) error {
	m := present.Meta(nil)
	if m == nil || m.ClusterID == saved.Meta(nil).ClusterID {
		return nil
	}
	for j := range present.Jobs(nil, wire.AllNamespaces, "") {
		if j.Namespace != ids.ReservedNamespace {
			return foreign("it has job " + string(j.ID))
		}
	}
	for v := range present.Volumes(nil, wire.AllNamespaces, "") {
		return foreign("it has volume " + v.ID.String())
	}
	for a := range present.Attachments(nil) {
		return foreign(volume.DescribeAttachment(a))
	}
	return nil
}

func foreign(why string) error {
	return fault.WithHint(fault.New(fault.Conflict, "restore", "the servers' state",
		"the saved state is another cluster's, and this one is in use: "+why),
		"restore it into a server without jobs and volumes")
}
