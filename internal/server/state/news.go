package state

import (
	"iter"

	"berth/internal/model/volume"
)

// News names something of storage that was written or removed: a volume's record, a provider's volume about which
// something was, or a snapshot. What is not set is not meant.
type News struct {
	Volume   volume.ID
	Staging  volume.StagingKey
	Snapshot string
}

// Cursor is how far somebody has read the news. The zero value has read nothing.
type Cursor struct {
	gen  *generation
	next uint64
}

// News returns what was written since the cursor was here last, and moves it on. Not known: that reaches back further
// than what is remembered, or to another state; then everything may have changed. What was written often may come as
// often. The watch sees the next news.
func (s *Snap) News(w *Watch, c *Cursor) (news iter.Seq[News], known bool) {
	for _, t := range tables {
		t.watchNews(s, w)
	}
	was := *c
	*c = Cursor{gen: s.gen, next: s.Index() + 1}
	if was.gen != s.gen {
		return func(func(News) bool) {}, false
	}
	return s.gen.news.Between(was.next, c.next)
}

func (tx *Tx) tell(n News) { tx.news.Add(tx.stamp.Index, n) }
