package recovery

import (
	"testing"

	"berth/internal/server/fsm"
)

// Given a full disk, on which nothing but releases is recorded, then the words by which a recovery ends, and the claims
// of a dead node with it, are among those; what begins one is not.
func TestARecoveryEndsOnAFullDisk(t *testing.T) {
	for _, c := range []any{&Finish{}, &Dismiss{}, &Attest{}} {
		if r, ok := c.(fsm.Releasing); !ok || !r.Releases() {
			t.Errorf("%T is refused on a full disk", c)
		}
	}
	if r, ok := any(&Begin{}).(fsm.Releasing); ok && r.Releases() {
		t.Error("a recovery begins on a full disk")
	}
}
