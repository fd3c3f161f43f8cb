package keys

import (
	"time"

	"berth/internal/model/job"
	"berth/internal/model/workload"
	"berth/internal/server/state"
)

// Signs is the key that the cluster signs with: that of the active data key, else the newest; nil: there is none.
func Signs(s *state.Snap) *state.SigningKey {
	if active := s.ActiveDataKey(nil); active != nil {
		if k := s.SigningKey(nil, active.ID); k != nil {
			return k
		}
	}
	var newest *state.SigningKey
	for k := range s.SigningKeys(nil) {
		if newest == nil || k.CreateIndex > newest.CreateIndex {
			newest = k
		}
	}
	return newest
}

// Believed counts the allocations whose tasks may show an identity that a key has signed: those that were there before
// the next key came, and have not ended. An identity that is good for a time alone counts for that time.
func Believed(s *state.Snap, id string, now time.Time) int {
	key := s.SigningKey(nil, id)
	if key == nil {
		return 0
	}
	next := successor(s, key)
	n := 0
	for a := range s.Allocs(nil, "") {
		if a.ClientTerminal() || next != nil && a.CreateIndex > next.CreateIndex {
			continue
		}
		j := s.JobOf(nil, a)
		if j == nil || j.Group(a.TaskGroup) == nil {
			continue
		}
		if shows(shown(j.Group(a.TaskGroup)), next, now) {
			n++
		}
	}
	return n
}

// shown are the identities of a group that somebody may show: those of its services are asked for without being shown
// to a task.
func shown(g *job.TaskGroup) (out []*job.WorkloadIdentity) {
	for _, t := range g.Tasks {
		out = append(out, workload.Shown(g, t)...)
	}
	for _, s := range g.AllServices() {
		if s.Identity != nil {
			out = append(out, s.Identity)
		}
	}
	return out
}

// successor is the key that came first after another one; nil: none has.
func successor(s *state.Snap, key *state.SigningKey) *state.SigningKey {
	var next *state.SigningKey
	for k := range s.SigningKeys(nil) {
		if k.CreateIndex > key.CreateIndex && (next == nil || k.CreateIndex < next.CreateIndex) {
			next = k
		}
	}
	return next
}

func shows(identities []*job.WorkloadIdentity, next *state.SigningKey, now time.Time) bool {
	for _, id := range identities {
		if id.TTL == 0 || next == nil || now.Before(next.Created.Add(id.TTL)) {
			return true
		}
	}
	return false
}
