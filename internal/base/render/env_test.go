package render

import (
	"maps"
	"strings"
	"testing"
)

// TestVariablesAreReadFromLines: comments and empty lines say nothing, a value may have an "=" and be in quotes, and it
// may be as long as a program may be given one (128 KiB on Linux, MAX_ARG_STRLEN).
func TestVariablesAreReadFromLines(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	got, err := ParseEnv([]byte("# no=thing\n\n A = b=c \nexport B=\"d\\te\"\nC='$f'\nD=\"g\nLONG=" + long))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"A": "b=c", "B": "d\te", "C": "$f", "D": "\"g", "LONG": long}
	if !maps.Equal(got, want) {
		delete(got, "LONG")
		t.Errorf("got %q", got)
	}
	for _, wrong := range []string{"A", "=b", "A=b\nexport C"} {
		if got, err := ParseEnv([]byte(wrong)); err == nil {
			t.Errorf("%q is read as %q", wrong, got)
		}
	}
}
