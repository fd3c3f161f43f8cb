package keepers

import (
	"strings"
	"testing"

	"berth/internal/wire"
)

// Stage is a story that a test tells by itself: the keepers, endpoints and nodes of a transcript, and the connection
// on which surfaces reach them. It lives within a bubble of synctest.
type Stage struct{ w *world }

// NewStage returns a stage that ends with the test.
func NewStage(t *testing.T) *Stage { return &Stage{newWorld(t)} }

// Conn is the connection to the servers.
func (s *Stage) Conn() wire.Conn { return s.w.conn }

// Play runs commands, one a line, as a transcript does, and returns what came of them.
func (s *Stage) Play(commands string) string { return s.w.play(strings.TrimSpace(commands)) }

// Said returns what the keepers have logged for people, at level INFO and above.
func (s *Stage) Said() string {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.said.String()
}

// Readable takes random ids and times out of a text.
func Readable(s string) string { return readable(s) }

// Updating reports whether what is written down is to be written anew, by -update.
func Updating() bool { return *update }
