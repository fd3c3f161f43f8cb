// Package newsfeed owns the memory of what the last commands wrote, so that keepers look at that and not at everything.
// The state imports it.
package newsfeed

import (
	"cmp"
	"iter"
	"slices"
	"sync"
)

// kept bounds the news that are remembered.
const kept = 1 << 16

// News are what some commands wrote, ordered by their indexes.
type News[T comparable] []item[T]

type item[T comparable] struct {
	index uint64
	what  T
}

// few is how many of a command's last news are searched for one that is said again: most commands have less.
const few = 8

// Add appends what the command of an index, which is none before the last one's, wrote: an object that is written, and
// what it was before, mostly concern the same.
func (n *News[T]) Add(index uint64, what T) {
	last := (*n)[max(0, len(*n)-few):]
	if w := (item[T]{index, what}); !slices.Contains(last, w) {
		*n = append(*n, w)
	}
}

// Feed is what is remembered. The zero value is empty and whole.
type Feed[T comparable] struct {
	mu    sync.Mutex
	all   []News[T] // as they were added, none of them empty
	count int
	from  uint64 // the first index that is whole
}

// Add remembers what commands wrote, before anybody can see it.
func (f *Feed[T]) Add(news News[T]) {
	if len(news) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, news)
	f.count += len(news)
	for f.count > kept {
		first := f.all[0]
		f.all[0] = nil // what is forgotten is not kept by the array that it stood in
		f.all = f.all[1:]
		f.count -= len(first)
		f.from = first[len(first)-1].index + 1
	}
}

// Cursor is how far somebody has read a feed. The zero value has read nothing.
type Cursor[T comparable] struct {
	of   *Feed[T]
	next uint64
}

// Read yields what was added about commands up to an index since the cursor was here last, and moves it on. Not known:
// that reaches back further than what is remembered, or to another feed.
func (f *Feed[T]) Read(c *Cursor[T], index uint64) (news iter.Seq[T], known bool) {
	was := *c
	*c = Cursor[T]{of: f, next: index + 1}
	if was.of != f {
		return func(func(T) bool) {}, false
	}
	return f.Between(was.next, c.next)
}

// Between yields the news from an index on, with which some that were added together begin, and before another one; or
// tells that they are not remembered. What several commands wrote comes as often.
func (f *Feed[T]) Between(from, end uint64) (news iter.Seq[T], known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if from < f.from {
		return func(func(T) bool) {}, false
	}
	first, _ := slices.BinarySearchFunc(f.all, from, func(n News[T], at uint64) int {
		return cmp.Compare(n[len(n)-1].index, at)
	})
	all := slices.Clone(f.all[first:])
	return func(yield func(T) bool) {
		for _, some := range all {
			for _, i := range some {
				if i.index >= end || !yield(i.what) {
					return
				}
			}
		}
	}, true
}
