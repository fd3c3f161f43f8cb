package state

import "berth/internal/model/volume"

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
// than what is remembered, or to another state; then everything may have changed. The watch sees the next news.
func (s *Snap) News(w *Watch, c *Cursor) (news []News, known bool) {
	for _, t := range tables {
		t.watchNews(s, w)
	}
	end := s.Index() + 1
	if news, known = s.gen.news.Between(c.next, end); c.gen != s.gen {
		news, known = nil, false
	}
	c.gen, c.next = s.gen, end
	return news, known
}

func (tx *Tx) tell(news []News) { tx.news.Add(tx.stamp.Index, news) }

func newsOf(k volume.StagingKey) []News { return []News{{Staging: k}} }
