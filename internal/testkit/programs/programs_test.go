package programs_test

import (
	"strings"
	"testing"

	"berth/internal/testkit/programs"
)

// end is a test of which is recorded how it ended.
type end struct {
	testing.TB
	how string
}

func (e *end) Helper() {}

func (e *end) Fatal(args ...any) { e.how = "failed: " + args[0].(string); panic(e) }

func (e *end) Skip(args ...any) { e.how = "skipped: " + args[0].(string); panic(e) }

// Given a program that is missing, then a test of it is skipped where a person runs it, and fails in CI, and says which
// package has the program; one that is there is needed by tests that go on.
func TestWhatIsMissingIsNotPassedOverInCI(t *testing.T) {
	for ci, want := range map[string]string{"": "skipped: ", "true": "failed: "} {
		t.Setenv("CI", ci)
		e := &end{TB: t}
		func() {
			defer func() { _ = recover() }()
			programs.Need(e, "a-package", "sh", "/no/such/program")
			e.how = "went on"
		}()
		if !strings.HasPrefix(e.how, want) || !strings.Contains(e.how, "/no/such/program: ") ||
			!strings.HasSuffix(e.how, "a-package") {
			t.Errorf("CI=%q: %s", ci, e.how)
		}
		programs.Need(t, "dash", "sh", "/bin/sh")
	}
}
