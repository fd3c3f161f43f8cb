// Package catalog owns which services are found now, by the servers' state: it is derived from the allocs that run,
// their jobs and their nodes at each look. Only the server half imports it.
package catalog

import (
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/state"
)

// look is one look at the state. What it finds has the index that a read of it has.
type look struct {
	s        *state.Snap
	w        *state.Watch
	nodes    map[ids.Node]*node.Node
	modified uint64
	found    []*service.Registration
	of       func(service.Source) []*service.Registration // an alloc's
}

// Named are the registrations under the name of a service, by id, and the index of that read.
func Named(s *state.Snap, w *state.Watch, ns ids.Namespace, name string) ([]*service.Registration, uint64) {
	return newLook(s, w).named(ns, name)
}

// InConsul are the registrations under the name of a service that are to be found in Consul, by id, and the index of
// that read.
func InConsul(s *state.Snap, w *state.Watch, ns ids.Namespace, name string) ([]*service.Registration, uint64) {
	l := newLook(s, w)
	l.of = service.ToBeInConsul
	return l.named(ns, name)
}

func (l *look) named(ns ids.Namespace, name string) ([]*service.Registration, uint64) {
	l.jobs(slices.Collect(l.s.JobsFound(l.w, ns, name)))
	l.found = slices.DeleteFunc(l.found, func(r *service.Registration) bool { return r.Name != name })
	return l.end()
}

// All are the registrations of a namespace, or of all, by id, and the index of that read.
func All(s *state.Snap, w *state.Watch, ns ids.Namespace) ([]*service.Registration, uint64) {
	l := newLook(s, w)
	l.jobs(slices.Collect(s.JobsWithServices(w, ns)))
	return l.end()
}

// OfAlloc are the registrations of an alloc, by id, and the index of that read.
func OfAlloc(s *state.Snap, w *state.Watch, a *alloc.Alloc) ([]*service.Registration, uint64) {
	l := newLook(s, w)
	if j := s.JobOf(w, a); j != nil {
		l.alloc(a, j)
	}
	return l.end()
}

// OfJob are the registrations of a job's allocs, by id, and the index of that read.
func OfJob(s *state.Snap, w *state.Watch, ns ids.Namespace, id ids.Job) ([]*service.Registration, uint64) {
	l := newLook(s, w)
	for a := range s.AllocsByJob(w, ns, id) {
		if j := s.JobOf(w, a); j != nil {
			l.alloc(a, j)
		}
	}
	return l.end()
}

func newLook(s *state.Snap, w *state.Watch) *look {
	return &look{s: s, w: w, nodes: map[ids.Node]*node.Node{}, of: service.Registrations}
}

// version names a version of a job, of a purged predecessor too.
type version struct{ created, number uint64 }

// jobs looks at the allocs of versions of jobs, at each job once.
func (l *look) jobs(versions []*job.Job) {
	type key struct {
		ns ids.Namespace
		id ids.Job
	}
	all := map[key]map[version]*job.Job{}
	for _, j := range versions {
		l.modified = max(l.modified, j.ModifyIndex)
		k := key{j.Namespace, j.ID}
		if all[k] == nil {
			all[k] = map[version]*job.Job{}
		}
		all[k][version{j.CreateIndex, j.Version}] = j
	}
	for k, of := range all {
		for a := range l.s.AllocsByJob(l.w, k.ns, k.id) {
			if j := of[version{a.JobCreateIndex, a.JobVersion}]; j != nil {
				l.alloc(a, j)
			}
		}
	}
}

func (l *look) alloc(a *alloc.Alloc, j *job.Job) {
	l.modified = max(l.modified, a.ModifyIndex)
	if g := j.Group(a.TaskGroup); a.Terminal() || g == nil {
		return
	}
	n, known := l.nodes[a.Node]
	if !known {
		n = l.s.Node(l.w, a.Node)
		l.nodes[a.Node] = n
	}
	if n == nil {
		return
	}
	l.modified = max(l.modified, n.ModifyIndex)
	l.found = append(l.found, l.of(service.Source{Alloc: a, Job: j, Node: n})...)
}

func (l *look) end() ([]*service.Registration, uint64) {
	slices.SortFunc(l.found, func(a, b *service.Registration) int { return strings.Compare(a.ID, b.ID) })
	return l.found, max(l.s.ReadIndex(state.Allocs, l.modified), l.s.ReadIndex(state.JobVersions))
}
