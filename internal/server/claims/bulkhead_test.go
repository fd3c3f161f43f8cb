package claims_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/testkit/keepers"
)

// Given more volumes that wait to be attached by a plugin that does not answer than are worked on at once, when a
// volume of another plugin is claimed, then it is attached.
func TestAProviderThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := keepers.NewStage(t)
		var story strings.Builder
		story.WriteString("node n1\nnode n2 plugin=q\ncreate other plugin=q\n")
		for i := range 520 {
			fmt.Fprintf(&story, "create v%d\nanswer attach v%d hold\n", i, i)
		}
		s.Play(story.String())
		story.Reset()
		for i := range 520 {
			fmt.Fprintf(&story, "claim v%d a%d n1\n", i, i)
		}
		s.Play(story.String())
		if got := s.Play("claim other b n2"); !strings.Contains(got, "attachment other at n2: present") {
			t.Errorf("the other plugin's volume: %s", got)
		}
	})
}
