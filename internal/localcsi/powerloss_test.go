package localcsi

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"berth/internal/testkit/powerloss"
)

// span is how long something is there: made by one step, taken away by another. Steps are counted from 1; 0: never.
type span struct{ from, to int }

// must and may say whether it is there when so many steps were acknowledged; the next one may have been made or not.
func (s span) must(acked int) bool { return s.from <= acked && (s.to == 0 || acked+1 < s.to) }
func (s span) may(acked int) bool  { return s.from <= acked+1 && (s.to == 0 || acked < s.to) }

// Given volumes and snapshots that are made, used, expanded and deleted, when the power fails at any moment, then the
// plugin starts, has what it had said to have, with what users had synced, has nothing of what was deleted, and all of
// it can be used and deleted.
func TestAPowerLossTakesNothingThatThePluginAnswered(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	needRoot(t)
	d := powerloss.Mount(t, powerloss.Config{Cuts: 6, Delay: time.Millisecond})
	w := newWorld(t, filepath.Join(d.Dir, "data"), nil)
	c, size := mountCap("ext4", multi), 16*mib
	const written, expanded = 2, 6

	db := w.create(createReq("db", size, c))
	d.Ack() // 1
	writeFile(t, filepath.Join(w.use(db, "a", c, false), "f"), "data")
	d.Ack() // written
	snap := w.snap("snap", db)
	d.Ack() // 3
	restored := w.create(fromSnapshot(createReq("restored", size, c), snap))
	d.Ack() // 4
	copied := w.create(fromVolume(createReq("copied", size, c), db))
	d.Ack() // 5
	larger := &csi.ControllerExpandVolumeRequest{
		VolumeId:      restored,
		CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * size},
	}
	must2(w.ctl.ControllerExpandVolume(w.ctx(), larger))(t)
	d.Ack() // expanded
	w.remove(copied)
	d.Ack() // 7
	w.dropSnap(snap)
	d.Ack() // 8
	w.unpublish(db, "a")
	w.unstage(db)
	w.stop()

	d.Each(func(t *testing.T, cut powerloss.Cut, dir string) {
		powerloss.Reboot(t)
		w := newWorld(t, filepath.Join(dir, "data"), nil)
		w.holds(cut, db, span{1, 0}, w.volumes())
		w.holds(cut, restored, span{4, 0}, w.volumes())
		w.holds(cut, copied, span{5, 7}, w.volumes())
		w.holds(cut, snap, span{3, 8}, w.snapshots())
		for _, id := range w.snapshots() {
			w.create(fromSnapshot(createReq("again", size, c), id))
			w.dropSnap(id)
		}
		all := must2(w.ctl.ListVolumes(w.ctx(), &csi.ListVolumesRequest{}))(t).GetEntries()
		for _, e := range all {
			v := e.GetVolume()
			if id := v.GetVolumeId(); id == restored && cut.Acked >= expanded && v.GetCapacityBytes() != 2*size {
				t.Errorf("it was expanded to %d and has %d bytes", 2*size, v.GetCapacityBytes())
			}
			at := w.use(v.GetVolumeId(), "a", c, false)
			if v.GetVolumeId() != db || cut.Acked >= written {
				wantFile(t, filepath.Join(at, "f"), "data")
			}
			w.release(v.GetVolumeId(), "a")
		}
		w.nothingLeft()
	})
}

// holds looks whether something is there when it must be, and not when it may not be.
func (w *world) holds(cut powerloss.Cut, id string, s span, all []string) {
	w.t.Helper()
	there := slices.Contains(all, id)
	if s.must(cut.Acked) && !there || there && !s.may(cut.Acked) {
		w.t.Errorf("what is there from step %d to %d is there: %v", s.from, s.to, there)
	}
}

func (w *world) volumes() (out []string) {
	w.t.Helper()
	for _, e := range must2(w.ctl.ListVolumes(w.ctx(), &csi.ListVolumesRequest{}))(w.t).GetEntries() {
		out = append(out, e.GetVolume().GetVolumeId())
	}
	return out
}

func (w *world) snapshots() (out []string) {
	w.t.Helper()
	for _, e := range must2(w.ctl.ListSnapshots(w.ctx(), &csi.ListSnapshotsRequest{}))(w.t).GetEntries() {
		out = append(out, e.GetSnapshot().GetSnapshotId())
	}
	return out
}
