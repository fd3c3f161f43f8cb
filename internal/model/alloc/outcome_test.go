package alloc_test

import (
	"testing"

	"berth/internal/model/alloc"
)

// TestAnOutcomeThatNobodyKnows: only the ends of which no record is left may hide work that was done.
func TestAnOutcomeThatNobodyKnows(t *testing.T) {
	for text, want := range map[string]bool{
		alloc.LostInRestore:    true,
		alloc.EndedUnrecorded:  true,
		alloc.StoppedWithAgent: false,
		"":                     false,
	} {
		a := &alloc.Alloc{ClientStatus: alloc.ClientLost, ClientDescription: text}
		if a.OutcomeUnknown() != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
