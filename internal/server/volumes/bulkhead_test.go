package volumes_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/testkit/keepers"
)

// Given more creations at a provider that does not answer than are worked on at once, when another plugin's volume is
// asked for, then it is made.
func TestAProviderThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := keepers.NewStage(t)
		var story strings.Builder
		story.WriteString("node n1\nnode n2 plugin=q\n")
		for i := range 260 {
			fmt.Fprintf(&story, "answer create v%d hold\ncreate v%d\n", i, i)
		}
		s.Play(story.String())
		if got := s.Play("create other plugin=q"); !strings.Contains(got, "user, create other: created") {
			t.Errorf("the other plugin's volume: %s", got)
		}
	})
}
