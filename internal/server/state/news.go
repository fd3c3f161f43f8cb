package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/state/newsfeed"
)

// News names something of storage that was written or removed: a volume's record, a provider's volume about which
// something was, or a snapshot. What is not set is not meant.
type News struct {
	Volume   volume.ID
	Staging  volume.StagingKey
	Snapshot string
}

// Cursor is how far somebody has read the news of storage. The zero value has read nothing.
type Cursor = newsfeed.Cursor[News]

// EvalCursor is Cursor for the news of evaluations.
type EvalCursor = newsfeed.Cursor[ids.Eval]

// News returns what was written since the cursor was here last, and moves it on. Not known: that reaches back further
// than what is remembered, or to another state; then everything may have changed. What was written often may come as
// often. The watch sees the next news.
func (s *Snap) News(w *Watch, c *Cursor) (news iter.Seq[News], known bool) {
	for _, t := range tables {
		t.watchNews(s, w)
	}
	return s.gen.news.Read(c, s.Index())
}

// EvalNews is News of the evaluations that were written or forgotten.
func (s *Snap) EvalNews(c *EvalCursor) (iter.Seq[ids.Eval], bool) {
	return s.gen.evals.Read(c, s.Index())
}

func (tx *Tx) tell(n News) { tx.news.Add(tx.stamp.Index, n) }
