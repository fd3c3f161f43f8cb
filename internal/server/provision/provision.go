// Package provision owns which volumes the registration of a job makes: those that its groups say how to make, and
// that are not there. It reads, and changes nothing. Nothing is made at any other time: an alloc that is replaced never
// finds an empty volume in the place of one that was deleted. Where such a volume may be made follows from where its
// job may run.
package provision

import (
	"cmp"
	"iter"
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

// Missing lists the volumes that a registration of the job makes, each once, ordered by id: there is no record of it,
// or its provider refused to make it. They are as they are recorded: their uids follow from the command's seed.
func Missing(s *state.Snap, j *job.Job, seed string, now time.Time) []*volume.Volume {
	var out []*volume.Volume
	for _, w := range Of(j) {
		v, id := w.Volume, w.Volume.ID
		old := s.Volume(nil, id)
		if old != nil && old.Status.Phase != volume.PhaseFailed || len(out) > 0 && out[len(out)-1].ID == id {
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
