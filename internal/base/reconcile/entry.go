package reconcile

import (
	"container/heap"
	"slices"
	"time"

	"berth/internal/base/retry"
)

// stage of a key inside the loop.
type stage uint8

const (
	resting stage = iota // in no queue; only between two steps
	due                  // in its group's queue
	timed                // in Loop.timed
	running              // a pass is under way
)

// entry is what the loop knows of a key that is not done.
type entry[K comparable] struct {
	key       K
	group     string
	state     stage
	marked    bool // marked during its pass
	forgotten bool // forgotten during its pass
	attempts  int  // failures in a row
	err       error
	why       string
	next      time.Time
	slot      int // index in the timeline
}

// group is a number of workers and the keys that wait for one. It is there while it has either.
type group[K comparable] struct {
	due  []*entry[K] // in the order in which they became due
	busy int         // passes under way
}

// of returns the group of an entry. The caller holds the lock.
func (l *Loop[K]) of(e *entry[K]) *group[K] {
	g := l.groups[e.group]
	if g == nil {
		g = &group[K]{}
		l.groups[e.group] = g
	}
	return g
}

// release gives the worker of an entry's pass back. The caller holds the lock.
func (l *Loop[K]) release(e *entry[K]) {
	g := l.of(e)
	g.busy--
	l.dropIdle(e.group, g)
}

func (l *Loop[K]) dropIdle(name string, g *group[K]) {
	if g.busy == 0 && len(g.due) == 0 {
		delete(l.groups, name)
	}
}

func (e *entry[K]) describe() Waiting[K] {
	return Waiting[K]{
		Key:      e.key,
		Running:  e.state == running,
		Attempts: e.attempts,
		Err:      e.err,
		Why:      e.why,
		NextTry:  e.next,
	}
}

// makeDue queues an entry that is not running. The caller holds the lock.
func (l *Loop[K]) makeDue(e *entry[K]) {
	switch e.state {
	case due:
		return
	case timed:
		heap.Remove(&l.timed, e.slot)
	}
	e.state, e.next = due, time.Time{}
	g := l.of(e)
	g.due = append(g.due, e)
	l.wake.Notify()
}

// makeTimed files a resting entry under the time when its pause ends. The caller holds the lock.
func (l *Loop[K]) makeTimed(e *entry[K], pause time.Duration) {
	e.state, e.next = timed, time.Now().Add(pause)
	heap.Push(&l.timed, e)
}

// remove takes an entry that is not running out of everything. The caller holds the lock.
func (l *Loop[K]) remove(e *entry[K]) {
	switch e.state {
	case due:
		g := l.of(e)
		g.due = slices.DeleteFunc(g.due, func(other *entry[K]) bool { return other == e })
		l.dropIdle(e.group, g)
	case timed:
		heap.Remove(&l.timed, e.slot)
	}
	delete(l.entries, e.key)
}

// pause returns how long to wait after a number of failures in a row: the doubled pause, less up to a fifth of it, so
// that keys that failed together do not come back together.
func (c Config) pause(attempts int) time.Duration {
	return retry.Backoff{Min: c.MinPause, Max: c.MaxPause}.Jittered(attempts)
}

// timeline is a heap of entries by the time when they become due.
type timeline[K comparable] []*entry[K]

func (t timeline[K]) ready(now time.Time) bool { return len(t) > 0 && !t[0].next.After(now) }
func (t timeline[K]) Len() int                 { return len(t) }
func (t timeline[K]) Less(i, j int) bool       { return t[i].next.Before(t[j].next) }
func (t timeline[K]) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].slot, t[j].slot = i, j
}

// Push is for container/heap.
func (t *timeline[K]) Push(x any) {
	e := x.(*entry[K])
	e.slot = len(*t)
	*t = append(*t, e)
}

// Pop is for container/heap.
func (t *timeline[K]) Pop() any {
	last := len(*t) - 1
	e := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return e
}

func sortWaiting[K comparable](ws []Waiting[K]) {
	slices.SortStableFunc(ws, func(a, b Waiting[K]) int {
		if a.Running != b.Running {
			if a.Running {
				return -1
			}
			return 1
		}
		return a.NextTry.Compare(b.NextTry)
	})
}
