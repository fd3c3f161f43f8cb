// Package versions owns which versions of jobs are kept. Packages of the server half may import it.
package versions

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// kept is how many versions of a job are kept although no alloc refers to them, the present one included.
const kept = 6

// Prune forgets versions of the present job beyond the newest kept that no alloc refers to, but for the
// newest stable one, to which a deployment that fails goes back, and for those with a name, which do not count.
func Prune(tx *state.Tx, j *job.Job) {
	versions := tx.JobVersions(nil, j.Namespace, j.ID)
	if len(versions) <= kept {
		return
	}
	used := map[uint64]bool{}
	for a := range tx.AllocsByJob(nil, j.Namespace, j.ID) {
		if a.JobCreateIndex == j.CreateIndex {
			used[a.JobVersion] = true
		}
	}
	stays := map[uint64]bool{}
	stable := slices.IndexFunc(versions, func(v *job.Job) bool { return v.Stable })
	nameless := 0
	for i, v := range versions {
		if v.VersionTag == nil {
			nameless++
		}
		if nameless <= kept || i == stable || used[v.Version] || v.VersionTag != nil {
			stays[v.Version] = true
			continue
		}
		tx.DeleteJobVersion(v)
	}
	tx.DeleteSubmissions(j.Namespace, j.ID, func(v uint64) bool { return stays[v] })
}

// DropUnused forgets the stored versions of an id that no alloc refers to and that are not of its present job.
func DropUnused(tx *state.Tx, ns ids.Namespace, id ids.Job) {
	type ref struct{ create, version uint64 }
	used := map[ref]bool{}
	for a := range tx.AllocsByJob(nil, ns, id) {
		used[ref{a.JobCreateIndex, a.JobVersion}] = true
	}
	present := tx.Job(nil, ns, id)
	for _, v := range tx.StoredJobVersions(nil, ns, id) {
		if present != nil && present.CreateIndex == v.CreateIndex || used[ref{v.CreateIndex, v.Version}] {
			continue
		}
		tx.DeleteJobVersion(v)
	}
}
