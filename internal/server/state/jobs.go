package state

import (
	"iter"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/derive/service"
	"berth/internal/model/deployment"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// Names of tables, for Snap.TableIndex and Snap.ReadIndex.
const (
	Jobs        = "jobs"
	JobVersions = "job_versions"
	Submissions = "submissions"

	byService = "service"
	byClock   = "clock"
)

// anyName files versions of jobs with a service whose name depends on where it runs.
const anyName = "${"

// servicesOf are the names by which a version of a job may be found.
func servicesOf(j *job.Job) (out []Key) {
	for _, g := range j.TaskGroups {
		for _, s := range g.AllServices() {
			name := s.Name
			if !service.Static(name) {
				name = anyName
			}
			if k := KeyOf(string(j.Namespace), name); !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	return out
}

// JobsFound yields the kept versions of jobs whose allocs may be found under the name of a service.
func (s *Snap) JobsFound(w *Watch, ns ids.Namespace, name string) iter.Seq[*job.Job] {
	return func(yield func(*job.Job) bool) {
		for _, n := range []string{name, anyName} {
			for j := range jobVersions.find(s, w, byService, KeyOf(string(ns), n)) {
				if !yield(j) {
					return
				}
			}
		}
	}
}

// JobsWithServices yields the kept versions of a namespace's jobs (or of all) that have services. One with several
// comes several times.
func (s *Snap) JobsWithServices(w *Watch, ns ids.Namespace) iter.Seq[*job.Job] {
	return jobVersions.find(s, w, byService, inNamespace(ns, ""))
}

// jobs holds the present version of each job; jobVersions holds every version that is kept, the present one too.
var (
	jobs = &table[job.Job]{
		name:     Jobs,
		key:      func(j *job.Job) Key { return jobKey(j.Namespace, j.ID) },
		stamp:    func(*job.Job, *job.Job, uint64) {}, // PutJob does it: a version keeps what it was stored with
		indexes:  []index[job.Job]{one(byClock, clockOf), one(byPolicies, policiesOf)},
		modified: func(j *job.Job) uint64 { return j.ModifyIndex },
	}
	jobVersions = &table[job.Job]{
		name: JobVersions,
		key: func(j *job.Job) Key {
			return jobKey(j.Namespace, j.ID).With(number(j.CreateIndex), number(j.Version))
		},
		indexes:  []index[job.Job]{{name: byService, keys: servicesOf}},
		modified: func(j *job.Job) uint64 { return j.ModifyIndex },
	}
	submissions = &table[job.Submission]{
		name:     Submissions,
		key:      func(s *job.Submission) Key { return jobKey(s.Namespace, s.Job).With(number(s.Version)) },
		stamp:    func(s, _ *job.Submission, index uint64) { s.ModifyIndex = index },
		modified: func(s *job.Submission) uint64 { return s.ModifyIndex },
	}
)

func jobKey(ns ids.Namespace, id ids.Job) Key { return KeyOf(string(ns), string(id)) }

// inNamespace is the beginning of the keys of a namespace's objects whose id begins with prefix; for all namespaces the
// prefix cannot be part of the key.
func inNamespace(ns ids.Namespace, prefix string) Key {
	if ns == wire.AllNamespaces || ns == "" {
		return ""
	}
	return KeyOf(ns).Open(prefix)
}

// Job returns the present version of a job, or nil.
func (s *Snap) Job(w *Watch, ns ids.Namespace, id ids.Job) *job.Job {
	return jobs.get(s, w, jobKey(ns, id))
}

// Jobs yields the present versions of a namespace's jobs (or of all) whose id begins with prefix, by namespace and id.
func (s *Snap) Jobs(w *Watch, ns ids.Namespace, prefix string) iter.Seq[*job.Job] {
	return matching(jobs.scan(s, w, inNamespace(ns, prefix)), prefix, func(j *job.Job) string { return string(j.ID) })
}

// clockOf files the jobs that are launched by the clock.
func clockOf(j *job.Job) Key {
	if j.Periodic == nil {
		return ""
	}
	return jobKey(j.Namespace, j.ID)
}

// PeriodicJobs yields the jobs of all namespaces that are launched by the clock.
func (s *Snap) PeriodicJobs(w *Watch) iter.Seq[*job.Job] { return jobs.find(s, w, byClock, "") }

// Children yields the jobs that a job has launched, oldest first as far as their ids say.
func (s *Snap) Children(w *Watch, parent *job.Job) iter.Seq[*job.Job] {
	return func(yield func(*job.Job) bool) {
		for j := range s.Jobs(w, parent.Namespace, string(parent.ID)+"/") {
			if j.ParentID == parent.ID && !yield(j) {
				return
			}
		}
	}
}

// JobVersion returns one kept version of a job, or nil. The create index tells a purged predecessor apart.
func (s *Snap) JobVersion(w *Watch, ns ids.Namespace, id ids.Job, createIndex, version uint64) *job.Job {
	return jobVersions.get(s, w, KeyOf(string(ns), string(id), number(createIndex), number(version)))
}

// JobVersions returns the kept versions of the present job of that id, newest first.
func (s *Snap) JobVersions(w *Watch, ns ids.Namespace, id ids.Job) []*job.Job {
	j := s.Job(w, ns, id)
	if j == nil {
		return nil
	}
	out := slices.Collect(jobVersions.scan(s, w, jobKey(ns, id).With(number(j.CreateIndex))))
	slices.Reverse(out)
	return out
}

// StoredJobVersions returns every stored version of that id, of purged predecessors too, oldest first.
func (s *Snap) StoredJobVersions(w *Watch, ns ids.Namespace, id ids.Job) []*job.Job {
	return slices.Collect(jobVersions.scan(s, w, jobKey(ns, id)))
}

// AllJobVersions yields every stored version of every job.
func (s *Snap) AllJobVersions() iter.Seq[*job.Job] { return jobVersions.scan(s, nil, "") }

// Submission returns the text of a job version, or nil.
func (s *Snap) Submission(w *Watch, ns ids.Namespace, id ids.Job, version uint64) *job.Submission {
	return submissions.get(s, w, jobKey(ns, id).With(number(version)))
}

// Submissions yields the texts of all versions of a job.
func (s *Snap) Submissions(w *Watch, ns ids.Namespace, id ids.Job) iter.Seq[*job.Submission] {
	return submissions.scan(s, w, jobKey(ns, id))
}

// PutJob stores j as the present version. It keeps the create index of the job that it replaces.
func (tx *Tx) PutJob(j *job.Job) {
	j.CreateIndex = tx.stamp.Index
	if old := tx.Job(nil, j.Namespace, j.ID); old != nil {
		j.CreateIndex = old.CreateIndex
	}
	j.ModifyIndex = tx.stamp.Index
	jobs.put(tx, j)
	jobVersions.put(tx, j)
}

// PutJobVersion stores a version again that is stored already, the present one included.
func (tx *Tx) PutJobVersion(j *job.Job) {
	j.ModifyIndex = tx.stamp.Index
	now := tx.Job(nil, j.Namespace, j.ID)
	if now != nil && now.CreateIndex == j.CreateIndex && now.Version == j.Version {
		jobs.put(tx, j)
	}
	jobVersions.put(tx, j)
}

// DeleteJob forgets the present version; versions that allocs refer to stay until DeleteJobVersion.
func (tx *Tx) DeleteJob(ns ids.Namespace, id ids.Job) bool {
	scalings.drop(tx, jobKey(ns, id))
	return jobs.drop(tx, jobKey(ns, id))
}

// DeleteJobVersion forgets one stored version, and with it its deployment.
func (tx *Tx) DeleteJobVersion(j *job.Job) bool {
	deployments.drop(tx, KeyOf(deployment.IDOf(j.Namespace, j.ID, j.CreateIndex, j.Version)))
	return jobVersions.drop(tx, jobVersions.key(j))
}

// PutSubmission stores the text of a job version.
func (tx *Tx) PutSubmission(s *job.Submission) { submissions.put(tx, s) }

// DeleteSubmissions forgets the texts of all versions of a job but those that keep says to keep.
func (tx *Tx) DeleteSubmissions(ns ids.Namespace, id ids.Job, keep func(version uint64) bool) {
	for _, s := range slices.Collect(tx.Submissions(nil, ns, id)) {
		if !keep(s.Version) {
			submissions.drop(tx, submissions.key(s))
		}
	}
}

// matching filters by prefix of the id; it costs nothing where the scan did it already.
func matching[T any](in iter.Seq[*T], prefix string, id func(*T) string) iter.Seq[*T] {
	if prefix == "" {
		return in
	}
	return func(yield func(*T) bool) {
		for o := range in {
			if s := id(o); len(s) >= len(prefix) && s[:len(prefix)] == prefix && !yield(o) {
				return
			}
		}
	}
}
