package localstate

import (
	"crypto/rand"

	"berth/internal/model/lineage"
	"berth/internal/port/kv"
)

const keySession = "session"

// keptStarts bounds the agent starts that no server has answered. The last of so many is used again: it was never
// accepted as far as this node knows, so nothing was done in it.
const keptStarts = 64

// Session is where the node is in the chain of its agent starts.
type Session struct {
	Accepted string        // epoch of the last start that a server accepted; empty: none was
	At       lineage.Point // the servers' state that accepted it
	// Tried are the epochs of later starts whose registration may have been sent and was not answered, oldest first.
	Tried []string
}

// BeginSession makes the epoch of this agent start, durably: no server hears of one that the next start would not know.
// It is the last of those tried.
func (s *Store) BeginSession() (Session, error) {
	var c Session
	err := s.KV.Update(func(tx *kv.Tx) error {
		if _, err := tx.Get(bucketMeta, keySession, &c); err != nil {
			return err
		}
		if len(c.Tried) < keptStarts {
			c.Tried = append(c.Tried, rand.Text())
		}
		return tx.Put(bucketMeta, keySession, c)
	})
	return c, err
}

// AcceptSession notes that the servers accepted an agent start.
func (s *Store) AcceptSession(epoch string, at lineage.Point) error {
	return s.KV.Update(func(tx *kv.Tx) error {
		return tx.Put(bucketMeta, keySession, Session{Accepted: epoch, At: at})
	})
}
