// Package changes owns the memory of the last changes of the state, entry by entry, for those who follow them: one ring
// for all of them, bounded in entries' changes and in bytes. The state writes it, and the endpoint of events reads it.
package changes

import (
	"slices"
	"sync"
	"sync/atomic"

	"berth/internal/base/fault"
)

// Bounds of what is remembered.
const (
	MaxChanges = 1 << 14
	MaxBytes   = 64 << 20
	// weight is what an object that is remembered takes in any case, beside what its entry brought.
	weight = 1 << 10
)

// Change is an object that one entry of the log wrote or removed. Objects are frozen.
type Change struct {
	Table string
	Old   any // as it was before the entry; nil: it was not there
	Now   any // nil: it was removed
	key   string
}

// Object is the one that the change is about, as it is or was last.
func (c *Change) Object() any {
	if c.Now != nil {
		return c.Now
	}
	return c.Old
}

// Batch is what one entry changed, each object once, in the order in which they were first written.
type Batch struct {
	Index   uint64
	Cause   string // the name of the command
	Changes []*Change

	shown sync.Once
	form  any
	bytes atomic.Int64
}

// Log is what a transaction notes. The zero value is empty.
type Log struct {
	done []*Batch
	now  *Batch
	size int
	by   map[object]*Change // those of now, once they are many
}

// Begin notes that a command begins, which took size bytes of the log.
func (l *Log) Begin(index uint64, cause string, size int) {
	l.now = &Batch{Index: index, Cause: cause}
	l.size, l.by = size, nil
}

// End notes that the command is done.
func (l *Log) End() {
	b := l.now
	b.Changes = slices.DeleteFunc(b.Changes, func(c *Change) bool { return c.Old == nil && c.Now == nil })
	if len(b.Changes) > 0 {
		b.bytes.Store(int64(l.size + weight*len(b.Changes)))
		l.done = append(l.done, b)
	}
	l.now = nil
}

// Note notes that the object of a key was old and is now; nil: it was not there, or is no more.
func Note[T any](l *Log, table, key string, old, now *T) {
	if l.now == nil || !Followed(table) {
		return
	}
	at := object{table, key}
	c := l.find(at)
	if c == nil {
		c = &Change{Table: table, key: key}
		if old != nil {
			c.Old = old
		}
		if l.now.Changes == nil {
			l.now.Changes = make([]*Change, 0, some)
		}
		l.now.Changes = append(l.now.Changes, c)
		if l.by != nil {
			l.by[at] = c
		}
	}
	c.Now = nil
	if now != nil {
		c.Now = now
	}
}

// object names an object of a table.
type object struct{ table, key string }

// some is how many changes a command that makes one mostly makes, at most.
const some = 4

// few is how many changes are searched one by one: most commands have less, and need no map.
const few = 16

// find looks for the change of an object in the command that is under way.
func (l *Log) find(at object) *Change {
	all := l.now.Changes
	if len(all) > few {
		if l.by == nil {
			l.by = map[object]*Change{}
			for _, c := range all {
				l.by[object{c.Table, c.key}] = c
			}
		}
		return l.by[at]
	}
	for _, c := range all {
		if c.key == at.key && c.Table == at.table {
			return c
		}
	}
	return nil
}

// Feed is what is remembered of one life of the state. The zero value is empty.
type Feed struct {
	mu      sync.Mutex
	batches []*Batch
	count   int    // of the changes in them
	bytes   int64  // of the batches
	cut     uint64 // the index of the last batch that was forgotten
	closed  error
	grown   chan struct{} // closed when something is added; nil: nobody waits
}

// Add remembers what a transaction changed. It is called when that is visible to all, in the order of the log.
func (f *Feed) Add(l *Log) {
	if len(l.done) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range l.done {
		f.batches = append(f.batches, b)
		f.count += len(b.Changes)
		f.bytes += b.bytes.Load()
	}
	f.forget()
	f.wake()
}

// forget drops the oldest batches beyond the bounds, but never the newest one.
func (f *Feed) forget() {
	n := 0
	for n < len(f.batches)-1 && (f.count > MaxChanges || f.bytes > MaxBytes) {
		b := f.batches[n]
		f.count -= len(b.Changes)
		f.bytes -= b.bytes.Load()
		f.cut = b.Index
		f.batches[n] = nil // what is forgotten is not kept by the array that it stood in
		n++
	}
	f.batches = f.batches[n:]
}

func (f *Feed) wake() {
	if f.grown != nil {
		close(f.grown)
		f.grown = nil
	}
}

// Close ends what follows the feed: the state is another.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = fault.WithHint(fault.New(fault.Unavailable, "follow", "the events of the servers' state",
		"the state was replaced by a saved one"), "read what there is now, and follow the events anew")
	f.wake()
}

// First is the index from which on what changed is remembered.
func (f *Feed) First() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut + 1
}

// From returns at most max of the batches from an index on, the oldest first. If there are none yet, more is closed as
// soon as that changes. An error says that those from there on are not remembered, or that there will be none.
func (f *Feed) From(index uint64, max int) (out []*Batch, more <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed != nil {
		return nil, nil, f.closed
	}
	if index <= f.cut {
		return nil, nil, fault.WithHint(fault.New(fault.Unavailable, "follow", "the events of the servers' state",
			"the reader fell behind: what comes next is no longer remembered"),
			"read what there is now, and follow the events anew; ask for fewer topics, or read faster")
	}
	at, _ := slices.BinarySearchFunc(f.batches, index, func(b *Batch, index uint64) int {
		if b.Index < index {
			return -1
		}
		return 1
	})
	if out = f.batches[at:min(len(f.batches), at+max)]; len(out) > 0 {
		return slices.Clone(out), nil, nil
	}
	if f.grown == nil {
		f.grown = make(chan struct{})
	}
	return nil, f.grown, nil
}

// Form is what derive makes of a batch, which it is asked for once, whoever asks; it says how many bytes that takes,
// which count from then on.
func (f *Feed) Form(b *Batch, derive func(*Batch) (form any, bytes int)) any {
	b.shown.Do(func() {
		form, bytes := derive(b)
		b.form = form
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.batches) > 0 && b.Index >= f.batches[0].Index {
			b.bytes.Add(int64(bytes))
			f.bytes += int64(bytes)
			f.forget()
		}
	})
	return b.form
}
