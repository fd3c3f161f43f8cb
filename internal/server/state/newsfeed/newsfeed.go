// Package newsfeed owns the memory of what the last commands wrote, so that keepers look at that and not at everything.
// The state imports it.
package newsfeed

import (
	"cmp"
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
func (n *News[T]) Add(index uint64, what []T) {
	for _, w := range what {
		last := (*n)[max(0, len(*n)-few):]
		if !slices.Contains(last, item[T]{index, w}) {
			*n = append(*n, item[T]{index, w})
		}
	}
}

// Feed is what is remembered. The zero value is empty and whole.
type Feed[T comparable] struct {
	mu    sync.Mutex
	items News[T]
	from  uint64 // the first index that is whole
}

// Add remembers what commands wrote, before anybody can see it.
func (f *Feed[T]) Add(news News[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items = append(f.items, news...)
	if over := len(f.items) - kept; over > 0 {
		over += kept / 4 // not at each command
		f.from = f.items[over-1].index + 1
		f.items = slices.Delete(f.items, 0, over)
	}
}

// Between lists the news from an index on and before another one, each once, or tells that they are not remembered.
func (f *Feed[T]) Between(from, end uint64) (out []T, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if from < f.from {
		return nil, false
	}
	first, _ := slices.BinarySearchFunc(f.items, from, func(i item[T], at uint64) int {
		return cmp.Compare(i.index, at)
	})
	seen := map[T]bool{}
	for _, i := range f.items[first:] {
		if i.index >= end {
			break
		}
		if !seen[i.what] {
			seen[i.what] = true
			out = append(out, i.what)
		}
	}
	return out, true
}
