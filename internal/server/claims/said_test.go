package claims_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/testkit/keepers"
)

// Given an attachment that fails again and again for one reason, then the log says it once, another reason once, and
// once that it is over.
func TestARepeatedFailureOfAnAttachmentIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := keepers.NewStage(t)
		s.Play("node n1\ncreate v1\n" +
			"answer attach v1 unavailable unavailable unavailable unavailable ok\nclaim v1 a1 n1")
		got := s.Play("wait 1h")
		if !strings.Contains(got, "attachment v1 at n1: present") {
			t.Fatalf("it is not attached after its failures: %s", got)
		}
		said := s.Said()
		if n := strings.Count(said, "an attachment did not succeed"); n != 1 {
			t.Errorf("of four failures for one reason %d are said:\n%s", n, said)
		}
		if n := strings.Count(said, "an attachment succeeds again"); n != 1 {
			t.Errorf("its end is said %d times:\n%s", n, said)
		}
	})
}
