package lineage

import (
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// larger is what people have heard of the size of one volume.
type larger struct {
	asked int64 // that was acknowledged as wanted; 0: nothing was
	has   int64 // that was acknowledged as reached
}

// snapshot is what people have heard of one snapshot, under a name that is used once for its volume.
type snapshot struct {
	promise
	vol int
	id  string // of its record; empty: the volume was not there
}

func cutName(i int) string { return fmt.Sprintf("c%d", i) }

// expand asks for a volume of that size, while whatever uses it goes on.
func (s *sim) expand(i int, bytes int64) {
	p := s.vols[i]
	if p == nil {
		return
	}
	reply, err := wire.VolumeExpand.Call(s.ctx(), s.world.site.reach(nil),
		&wire.VolumeExpandRequest{Volume: volID(volName(i)), Min: bytes, Wait: time.Second})
	s.note(fmt.Sprintf("%s of %d bytes", volName(i), bytes), err)
	if err != nil { // it may have been taken all the same, and then holds where it asks for less
		p.asked = min(p.asked, bytes)
		return
	}
	p.asked = bytes // another size takes the place of one that is under way, also a smaller one
	if reply.Outcome != wire.Accepted {
		p.has = max(p.has, bytes)
	}
}

// cut asks for a snapshot.
func (s *sim) cut(i, vol int) {
	p := &snapshot{vol: vol}
	s.cuts[i] = p
	if v := s.snap().Volume(nil, volID(volName(vol))); v != nil {
		p.id = volume.SnapshotID(v.UID, cutName(i))
	}
	reply, err := wire.SnapshotCreate.Call(s.ctx(), s.world.site.reach(nil),
		&wire.SnapshotCreateRequest{Volume: volID(volName(vol)), Name: cutName(i), Wait: time.Second})
	p.made = err == nil
	s.note("snapshot "+cutName(i), err)
	if err == nil && reply.Snapshot.ID != p.id {
		s.fails("snapshot %s has the id %s, and should have %s", cutName(i), reply.Snapshot.ID, p.id)
	}
}

// discard asks for the end of a snapshot.
func (s *sim) discard(i int) error {
	p := s.cuts[i]
	if p == nil || p.gone || p.id == "" {
		return nil
	}
	p.ended = true
	_, err := wire.SnapshotDelete.Call(s.ctx(), s.world.site.reach(nil), &wire.SnapshotDeleteRequest{
		Namespace:  ids.DefaultNamespace,
		Plugin:     disk,
		SnapshotID: p.id,
		Wait:       time.Second,
	})
	if err != nil && s.snap().VolumeSnapshot(nil, p.id) == nil {
		err = nil // it was done, or never made
	} else {
		p.gone = err == nil && p.made
	}
	s.note("the end of snapshot "+cutName(i), err)
	return err
}

// keptStorage holds that what was acknowledged of sizes and snapshots is so, and that a file system has grown where
// nothing is said to be left to grow.
func (s *sim) keptStorage() {
	snap := s.snap()
	for i, p := range s.vols {
		v := snap.Volume(nil, volID(volName(i)))
		if v == nil || v.Status.Phase == volume.PhaseDeleting {
			continue
		}
		size, fs := s.provider.sizes(v.Status.ExternalID)
		switch {
		case v.Spec.CapacityMin < p.asked:
			s.fails("%s was to have %d bytes, and is to have %d", volName(i), p.asked, v.Spec.CapacityMin)
		case v.Status.Capacity < p.has, size < v.Status.Capacity:
			s.fails("%s was said to have %d bytes, has %d by the servers and %d at its provider", volName(i), p.has,
				v.Status.Capacity, size)
		case fs > 0 && fs < v.Status.Capacity && !v.Status.NodeExpandPending:
			s.fails("the file system of %s has %d of %d bytes, and nobody is to grow it", volName(i), fs,
				v.Status.Capacity)
		}
	}
	for i, p := range s.cuts {
		c := snap.VolumeSnapshot(nil, p.id)
		if p.made && !p.ended && c == nil {
			s.fails("snapshot %s was acknowledged, and is not there", cutName(i))
		}
		if c != nil && c.Phase == volume.PhaseReady && !s.provider.isReady(c.ExternalID) {
			s.fails("snapshot %s is said to be ready to use, and is not", cutName(i))
		}
		if p.gone && c != nil && c.Phase != volume.PhaseDeleting {
			s.fails("the end of snapshot %s was acknowledged, and it is %s", cutName(i), c.Phase)
		}
	}
}

// growing says what has not grown as it was asked, though nothing hinders it; empty: nothing.
func (s *sim) growing() string {
	snap := s.snap()
	for i, p := range s.vols {
		v := snap.Volume(nil, volID(volName(i)))
		if v == nil || p.ended || p.asked == 0 {
			continue
		}
		if v.Status.Capacity < p.asked || v.Status.Phase != volume.PhaseReady {
			return fmt.Sprintf("%s is %s with %d bytes, and was to have %d", volName(i), v.Status.Phase,
				v.Status.Capacity, p.asked)
		}
		for e := range snap.InventoriesOf(nil, v.Staging()) {
			if g := v.GrowthOn(e.Entry); g != volume.Grown {
				return fmt.Sprintf("%s on node %s: its growth is %s", volName(i), ids.Short(e.Node), g)
			}
		}
	}
	return ""
}

// discarded asks for the end of all snapshots, and reports whether they are gone.
func (s *sim) discarded() bool {
	done := true
	for i := range s.cuts {
		done = s.discard(i) == nil && done
	}
	return done
}

// refusedFor reports whether an end was refused for what uses it.
func refusedFor(err error) bool { return fault.Has(err, fault.Conflict) || fault.Has(err, fault.Busy) }
