package artifacts

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"berth/internal/base/ids"
	"berth/internal/model/job"
)

// How many artifacts are fetched at a time: of one job, and of how many jobs. The last is one of memory: a child may
// take a gigabyte to unpack.
const (
	atOnce     = 4
	jobsAtOnce = 16
)

// turns says who fetches now. Nobody who has artifacts that take their time keeps others from having theirs: a job of
// which nothing is on its way begins at once, as long as there are not too many such jobs; where there are, a namespace
// of which nothing is on its way does. Further ones of a job share what is left, and whoever has least goes first.
type turns struct {
	mu      sync.Mutex
	by      map[owner]int // on their way
	waiting []*waiter     // as they came
}

// owner is a job, with all that it launches.
type owner struct {
	namespace ids.Namespace
	job       ids.Job
}

type waiter struct {
	owner  owner
	begins chan struct{} // closed when its turn has come
}

func ownerOf(j *job.Job) owner {
	if j == nil {
		return owner{}
	}
	return owner{j.Namespace, cmp.Or(j.ParentID, j.ID)}
}

// take waits for a turn, which leave gives back.
func (t *turns) take(ctx context.Context, o owner) error {
	t.mu.Lock()
	w := &waiter{o, make(chan struct{})}
	t.waiting = append(t.waiting, w)
	t.grant()
	t.mu.Unlock()
	select {
	case <-w.begins:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // its turn came meanwhile
		t.end(o)
	}
	return ctx.Err()
}

func (t *turns) leave(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(o)
}

func (t *turns) end(o owner) {
	if t.by[o]--; t.by[o] <= 0 {
		delete(t.by, o)
	}
	t.grant()
}

// grant gives turns to whoever may have one. The caller holds the lock.
func (t *turns) grant() {
	if t.by == nil {
		t.by = map[owner]int{}
	}
	for {
		next := -1
		for i, w := range t.waiting {
			if t.may(w.owner) && (next < 0 || t.by[w.owner] < t.by[t.waiting[next].owner]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.by[w.owner]++
		close(w.begins)
	}
}

func (t *turns) may(o owner) bool {
	further, ofNamespace := 0, 0
	for other, n := range t.by { // any order: it is a sum
		further += n - 1
		if other.namespace == o.namespace {
			ofNamespace++
		}
	}
	if t.by[o] > 0 {
		return further < atOnce-1
	}
	return len(t.by) < jobsAtOnce || ofNamespace == 0
}
