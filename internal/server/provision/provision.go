// Package provision owns which volumes the registration of a job makes: those that its groups say how to make, and
// that are not there, and which of them go with it. Nothing is made at any other time: an alloc that is replaced never
// finds an empty volume in the place of one that was deleted. Where such a volume may be made follows from where its
// job may run.
package provision

import (
	"cmp"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// Schema is the number of the cluster from which on the registration of a job makes volumes: a server before it would
// apply the same command without them.
const Schema = 6

// Corrects is the number from which on a registration replaces what its version before asked for in vain, and what no
// job asks for any more goes.
const Corrects = 8

// Wanted is a volume that a job says how to make.
type Wanted struct {
	Job     *job.Job
	Group   *job.TaskGroup
	Index   int // of the alloc that it is for; 0 where all of the group share it
	Request *job.VolumeRequest
	Volume  *volume.Volume // its id, and what would be asked of the plugin
}

// Of lists the volumes that a job says how to make, whether they are there or not, ordered by id. What two groups say
// of one volume is listed twice.
func Of(j *job.Job) []Wanted {
	var out []Wanted
	for w := range each(j) {
		w.Volume.Spec = spec(w.Request)
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b Wanted) int { return cmp.Compare(a.Volume.ID.ID, b.Volume.ID.ID) })
	return out
}

// each yields the volumes that a job says how to make, without what would be asked of the plugin.
func each(j *job.Job) iter.Seq[Wanted] {
	return func(yield func(Wanted) bool) {
		for _, g := range j.TaskGroups {
			for _, r := range g.CSIVolumes() {
				if r.Create == nil {
					continue
				}
				count := 1
				if r.PerAlloc {
					count = g.Count
				}
				for i := range count {
					v := &volume.Volume{ID: volume.ID{Namespace: j.Namespace, ID: r.SourceFor(i)}}
					w := Wanted{
						Job:     j,
						Group:   g,
						Index:   i,
						Request: r,
						Volume:  v,
					}
					if !yield(w) {
						return
					}
				}
			}
		}
	}
}

// spec is what would be asked of the plugin.
func spec(r *job.VolumeRequest) volume.Spec {
	out := volume.Spec{
		Plugin: r.Create.PluginID,
		Capabilities: []volume.Capability{{
			AccessMode:     volume.AccessMode(r.AccessMode),
			AttachmentMode: volume.AttachmentMode(r.AttachmentMode),
		}},
		CapacityMin: r.Create.CapacityMin,
		CapacityMax: r.Create.CapacityMax,
		Parameters:  r.Create.Parameters,
		Ownership:   r.Create.Ownership,
	}
	if o := r.MountOptions; o != nil {
		out.MountOptions = &volume.MountOptions{FSType: o.FSType, MountFlags: o.MountFlags}
	}
	return out
}

// Unmade tells of a record of which nothing is at the provider and nothing is under way: it can be replaced, or go,
// and nothing is left. What was under way when the state was restored is not known to be over.
func Unmade(v *volume.Volume) bool {
	st := &v.Status
	return st.Phase == volume.PhaseFailed ||
		st.Phase == volume.PhaseCreating && !st.Presence.Exists() && st.Executor == "" && !st.Suspended
}

// anew tells whether a registration records a volume, in place of the record that there is: there is none, its provider
// refused to make it, or the job's version before asked for it in another way and nothing was made.
func anew(old *volume.Volume, w *Wanted, before *job.Job) bool {
	if old == nil || old.Status.Phase == volume.PhaseFailed {
		return true
	}
	return Unmade(old) && !same(&old.Spec, &w.Volume.Spec) && asked(before, old)
}

// Renews tells whether a registration of the job replaces the record of a volume that it brings.
func Renews(s *state.Snap, w *Wanted) bool {
	return anew(s.Volume(nil, w.Volume.ID), w, s.Job(nil, w.Job.Namespace, w.Job.ID))
}

// asked tells whether a record is what a version of a job asks for.
func asked(j *job.Job, v *volume.Volume) bool {
	if j == nil {
		return false
	}
	for w := range each(j) {
		if w.Volume.ID == v.ID && says(w.Request, v) {
			return true
		}
	}
	return false
}

// says tells whether a request asks for what a record is of.
func says(r *job.VolumeRequest, v *volume.Volume) bool {
	as := spec(r)
	return same(&as, &v.Spec)
}

// same holds what is asked of a plugin against what was. A restored state may have nothing where a job has an empty
// list or map: every server must answer alike.
func same(a, b *volume.Spec) bool {
	return a.Plugin == b.Plugin && a.CapacityMin == b.CapacityMin && a.CapacityMax == b.CapacityMax &&
		a.Name == b.Name && a.Secrets == b.Secrets && a.SnapshotID == b.SnapshotID && a.CloneID == b.CloneID &&
		slices.Equal(a.Capabilities, b.Capabilities) && a.MountOptions.Equal(b.MountOptions) &&
		len(a.TopologyRequired)+len(b.TopologyRequired)+len(a.TopologyPreferred)+len(b.TopologyPreferred) == 0 &&
		maps.Equal(a.Parameters, b.Parameters) && reflect.DeepEqual(a.Ownership, b.Ownership)
}

// DropAbandoned forgets the volumes that a version of a job asked for, of which nothing was made, and that no job asks
// for any more. Before that version there may have been none.
func DropAbandoned(tx *state.Tx, before *job.Job) {
	if before == nil || !tx.Understands(Corrects) {
		return
	}
	for w := range each(before) {
		v := tx.Volume(nil, w.Volume.ID)
		if v != nil && Unmade(v) && says(w.Request, v) && len(bringers(&tx.Snap, v)) == 0 {
			tx.DeleteVolume(v.ID)
			tx.DropProvenEnds(v.UID)
		}
	}
}

// Missing lists the volumes that a registration of the job makes, each once, ordered by id: there is no record of it,
// its provider refused to make it, or the version before it asked in another way and nothing was made. They are
// as they are recorded: their uids follow from the command's seed.
func Missing(s *state.Snap, j, before *job.Job, seed string, now time.Time) []*volume.Volume {
	if !s.Understands(Corrects) {
		before = nil
	}
	var out []*volume.Volume
	for _, w := range Of(j) {
		v, id := w.Volume, w.Volume.ID
		old := s.Volume(nil, id)
		if !anew(old, &w, before) || len(out) > 0 && out[len(out)-1].ID == id {
			continue
		}
		v.UID = ids.Derived(seed, "volume", string(id.Namespace), string(id.ID))
		v.Status = volume.Status{Phase: volume.PhaseCreating, Since: now, Presence: volume.Absent}
		if rec := s.Plugin(nil, v.Spec.Plugin); rec != nil {
			v.Status.Provider, v.Status.ProviderVersion = rec.Provider, rec.Version
		}
		out = append(out, v)
	}
	return out
}
