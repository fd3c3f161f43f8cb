package state

import (
	"cmp"
	"slices"
	"sync"

	"berth/internal/model/volume"
)

// News names something of storage that was written or removed: a volume's record, a provider's volume about which
// something was, or a snapshot. What is not set is not meant.
type News struct {
	Volume   volume.ID
	Staging  volume.StagingKey
	Snapshot string
}

// keptNews bounds the news that are remembered.
const keptNews = 1 << 16

// newsfeed remembers what the last commands wrote, so that keepers look at that and not at everything.
type newsfeed struct {
	mu    sync.Mutex
	items []newsItem // ordered by index
	from  uint64     // the first index that is whole
}

type newsItem struct {
	index uint64
	News
}

// Cursor is how far somebody has read the news. The zero value has read nothing.
type Cursor struct {
	gen  *generation
	next uint64
}

// News returns what was written since the cursor was here last, and moves it on. Not known: that reaches back further
// than what is remembered, or to another state; then everything may have changed. The watch sees the next news.
func (s *Snap) News(w *Watch, c *Cursor) (news []News, known bool) {
	for _, t := range tables {
		t.watchNews(s, w)
	}
	end := s.Index() + 1
	s.gen.news.mu.Lock()
	defer s.gen.news.mu.Unlock()
	known = c.gen == s.gen && c.next >= s.gen.news.from
	if known {
		news = s.gen.news.between(c.next, end)
	}
	c.gen, c.next = s.gen, end
	return news, known
}

// between lists the news from an index on and before another one, each once. The caller holds the lock.
func (f *newsfeed) between(from, end uint64) (out []News) {
	first, _ := slices.BinarySearchFunc(f.items, from, func(i newsItem, at uint64) int {
		return cmp.Compare(i.index, at)
	})
	seen := map[News]bool{}
	for _, i := range f.items[first:] {
		if i.index >= end {
			break
		}
		if !seen[i.News] {
			seen[i.News] = true
			out = append(out, i.News)
		}
	}
	return out
}

// add remembers what a command writes, before anybody can see it.
func (f *newsfeed) add(index uint64, news []News) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range news {
		f.items = append(f.items, newsItem{index, n})
	}
	if over := len(f.items) - keptNews; over > 0 {
		over += keptNews / 4 // not at each command
		f.from = f.items[over-1].index + 1
		f.items = append([]newsItem(nil), f.items[over:]...)
	}
}

func newsOf(k volume.StagingKey) []News { return []News{{Staging: k}} }
