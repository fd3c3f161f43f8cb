// Package disks owns that allocs take no more of the node's disk than their groups ask for. It measures the directory
// of each alloc that runs again and again, and has the tasks of one that takes more than its ephemeral_disk ended. What
// it knows is in memory alone: after a restart of the agent it is measured anew. Only the client's composition and what
// answers the servers import it.
package disks

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/base/retry"
	"berth/internal/base/sizes"
	"berth/internal/client/allocdir"
	"berth/internal/client/disks/openfiles"
)

// Allocs is what is measured; the client's allocs implement it.
type Allocs interface {
	// Disks lists the allocs that may have processes.
	Disks() []Disk
	// Changed returns a channel that is closed when that list may have changed.
	Changed() <-chan struct{}
	// DiskExceeded ends the tasks of an alloc for that reason. To say it again changes nothing.
	DiskExceeded(id ids.Alloc, reason string)
}

// Processes tells who could hold files open that were removed; the shims' launcher implements it.
type Processes interface {
	// Processes maps the names of an alloc's tasks to their processes.
	Processes(id ids.Alloc) (map[string][]int, error)
}

// Disk is what an alloc may take.
type Disk struct {
	Alloc ids.Alloc
	Dir   allocdir.Dir
	Limit int64 // bytes
	// Beside are directories outside Dir that its tasks write, by the names that people know them by.
	Beside map[string]string
}

// Measured is what an alloc took when it was measured last.
type Measured struct {
	allocdir.Use
	Limit int64
	At    time.Time
}

// Sweep measures.
type Sweep struct {
	allocs Allocs
	tasks  Processes
	log    *slog.Logger
	loop   *reconcile.Loop[ids.Alloc]
	mu     sync.Mutex
	known  map[ids.Alloc]*known
}

type known struct {
	disk     Disk
	since    time.Time
	last     Measured // its time is zero before the first
	reported bool     // that it takes too much
}

// New returns a sweep that measures nothing before Run.
func New(a Allocs, tasks Processes, log *slog.Logger) *Sweep {
	s := &Sweep{allocs: a, tasks: tasks, log: log.With(logkey.Component, "disks"), known: map[ids.Alloc]*known{}}
	s.loop = reconcile.New(reconcile.Config{Name: "disk use", Parallel: 1, Log: s.log}, s.measure)
	return s
}

// Run measures until ctx ends.
func (s *Sweep) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{"measure": s.loop.Run, "follow": s.follow})
}

// follow takes up allocs that come and drops those that end, those of half a second together: each is left alone for
// longer than that.
func (s *Sweep) follow(ctx context.Context) error {
	return lifecycle.Follow(ctx, s.allocs.Changed, first/4, func() { s.take(s.allocs.Disks()) })
}

func (s *Sweep) take(list []Disk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[ids.Alloc]bool{}
	for _, d := range list {
		there[d.Alloc] = true
		k := s.known[d.Alloc]
		if k == nil {
			k = &known{since: time.Now()}
			s.known[d.Alloc] = k
			s.loop.Mark(d.Alloc)
		}
		k.disk = d
	}
	for id := range s.known {
		if !there[id] {
			delete(s.known, id)
			s.loop.Forget(id)
		}
	}
}

// measure measures one alloc and says when it is measured next.
func (s *Sweep) measure(ctx context.Context, id ids.Alloc) (reconcile.Result, error) {
	s.mu.Lock()
	k := s.known[id]
	if k == nil {
		s.mu.Unlock()
		return reconcile.Done(), nil // it has ended
	}
	disk, wait := k.disk, first-time.Since(k.since)
	s.mu.Unlock()
	if wait > 0 {
		return reconcile.Again(wait, "its tasks start"), nil
	}
	use, err := disk.Dir.Use(ctx)
	if err != nil {
		return reconcile.Done(), err
	}
	var beside allocdir.Use
	for name, dir := range disk.Beside {
		more, err := use.With(ctx, dir, name)
		if err != nil {
			return reconcile.Done(), err
		}
		beside.Bytes += more.Bytes
		beside.TooDeep = beside.TooDeep || more.TooDeep
	}
	looked, openErr := s.open(ctx, disk, &use)
	s.mu.Lock()
	k.last = Measured{Use: use, Limit: disk.Limit, At: time.Now().UTC()}
	reported := k.reported
	exceeded := !use.Enclosed && exceeds(use, disk.Limit) || exceeds(beside, disk.Limit)
	k.reported = exceeded
	s.mu.Unlock()
	if exceeded {
		reason := Reason(use, disk.Limit)
		if !reported {
			s.log.Warn("an allocation takes too much of the disk: its tasks are stopped", logkey.Alloc, id,
				"reason", reason)
		}
		s.allocs.DiskExceeded(id, reason)
	}
	if openErr != nil {
		return reconcile.Done(), openErr // what the directories show was judged
	}
	rest := Rest(use.Entries + looked/perLook)
	return reconcile.Again(retry.Backoff{Min: rest, Max: longest}.Jittered(1), "it is measured then"), nil
}

// open adds what the alloc's tasks hold in files that were removed, and says at how many descriptors it looked.
func (s *Sweep) open(ctx context.Context, disk Disk, use *allocdir.Use) (looked int, err error) {
	if s.tasks == nil || use.Charged {
		return 0, nil
	}
	tasks, err := s.tasks.Processes(disk.Alloc)
	if err != nil {
		return 0, err
	}
	found, err := openfiles.Look(ctx, disk.Dir.Path(), tasks, openfiles.Most)
	for _, task := range slices.Sorted(maps.Keys(found.Bytes)) {
		use.Add(allocdir.Place{
			Name:  fmt.Sprintf("files that were removed but are open by task %q", task),
			Bytes: found.Bytes[task],
		})
	}
	return found.Looked, err
}

// exceeds says that something takes too much, or hides how much it takes.
func exceeds(u allocdir.Use, limit int64) bool { return u.Bytes > limit || u.TooDeep }

// Of tells what an alloc took last; false: it is not measured, or was not yet.
func (s *Sweep) Of(id ids.Alloc) (Measured, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[id]
	if k == nil || k.last.At.IsZero() {
		return Measured{}, false
	}
	return k.last, true
}

// first is how long an alloc that comes is left alone. Its tasks start then, and what measures would take their
// processor; there is nothing yet to measure. It is less than an alloc rests between two measurements.
const first = 2 * time.Second

// An alloc is measured again after shortest, and a second later for each thousand files: looking at them takes some
// hundredths of that. Eight of its processes' descriptors count as a file. Even the largest is looked at once in
// longest.
const (
	shortest = 5 * time.Second
	longest  = 5 * time.Minute
	perEntry = time.Millisecond
	perLook  = 8
)

// Rest is how long an alloc with so many files rests between two measurements.
func Rest(entries int) time.Duration { return min(longest, shortest+time.Duration(entries)*perEntry) }

// namedPlaces is how many directories the reason names.
const namedPlaces = 3

// Reason says to whoever has to do something about it what is too much, and where it lies.
func Reason(u allocdir.Use, limit int64) string {
	if u.TooDeep {
		return fmt.Sprintf("directories of the allocation lie in each other deeper than %d, where what they take of "+
			"the node's disk is not measured", allocdir.Deepest)
	}
	used, allowed := sizes.Differing(u.Bytes, limit)
	text := fmt.Sprintf("the allocation takes %s of the node's disk, ephemeral_disk allows %s", used, allowed)
	for i, p := range u.Places[:min(namedPlaces, len(u.Places))] {
		if i == 0 {
			text += ": "
		} else {
			text += ", "
		}
		text += sizes.Human(p.Bytes) + " in " + p.Name
	}
	return text
}
