package session

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/wire"
)

// TestARefusedAgentAsksRarely: only a person changes that it is refused.
func TestARefusedAgentAsksRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for failures := range 5 {
			began := time.Now()
			pause(t.Context(), failures, wire.RefuseSession("n", "another is obeyed", ""))
			if rest := time.Since(began); rest < 30*time.Second || rest > time.Minute {
				t.Errorf("it asks again after %s", rest)
			}
		}
		began := time.Now()
		pause(t.Context(), 1, fault.New(fault.NotReady, "register", "n", "its other boot is heard"))
		if rest := time.Since(began); rest > time.Second {
			t.Errorf("one that waits for another asks again after %s", rest)
		}
	})
}
