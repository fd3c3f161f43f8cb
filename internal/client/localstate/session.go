package localstate

import (
	"crypto/rand"
	"slices"

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
	// Readmit is the token that a person has given to an identity that follows no session; it is shown until a start is
	// accepted.
	Readmit []byte `cbor:",omitempty"`
}

// Readmits reports whether the identity waits for the servers to accept it by a token.
func (s *Store) Readmits() (waits bool, err error) {
	var c Session
	_, err = s.own(keySession, &c)
	return len(c.Readmit) > 0, err
}

// Begin returns where the node is after an agent start has made a new epoch: the last of those tried.
func (c Session) Begin(epoch string) Session {
	if len(c.Tried) < keptStarts {
		c.Tried = append(slices.Clone(c.Tried), epoch)
	}
	return c
}

// Start is what the present agent start says of itself: its epoch, and those of which one should be the one that the
// servers obey. There is none before Begin.
func (c Session) Start() (previous []string, next string) {
	last := len(c.Tried) - 1
	previous = slices.Clone(c.Tried[:last])
	if c.Accepted != "" {
		previous = append(previous, c.Accepted)
	}
	return previous, c.Tried[last]
}

// Answered is the chain of an agent that goes on after the servers accepted its start. What it was sent with stays
// known while the agent runs: a state that lost this acceptance is answered as before.
func (c Session) Answered(at lineage.Point) Session {
	previous, next := c.Start()
	return Session{Accepted: next, At: at, Tried: append(previous, next)}
}

// BeginSession makes the epoch of this agent start, durably: no server hears of one that the next start would not know.
// It is the last of those tried.
func (s *Store) BeginSession() (Session, error) {
	var c Session
	err := s.KV.Update(func(tx *kv.Tx) error {
		c = Session{}
		if _, err := tx.Get(bucketMeta, keySession, &c); err != nil {
			return s.unreadable(err)
		}
		c = c.Begin(rand.Text())
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
