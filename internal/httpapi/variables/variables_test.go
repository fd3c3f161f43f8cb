package variables

import (
	"strings"
	"testing"

	"berth/api"
)

// Given the body of a write, then its members are read as those of other bodies are; one that names an item twice is
// refused with where.
func TestNoItemIsLostFromABody(t *testing.T) {
	in := &api.Variable{}
	if err := Read([]byte(`{"path":"a/b","Items":{"k":"v"},"Unknown":{"x":1,"y":[2]}}`), in); err != nil ||
		in.Path != "a/b" || in.Items["k"] != "v" {
		t.Errorf("%q, %d items, %v", in.Path, len(in.Items), err)
	}
	for body, says := range map[string]string{
		`{"Items":{"k":"v","k":"w"}}`: `duplicate object member name "k"`,
		`{"Items":{"k":7}}`:           "k",
		`{"Items":{"k":"v"`:           "unexpected",
		`[]`:                          "array",
	} {
		if err := Read([]byte(body), &api.Variable{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", body, err, says)
		}
	}
}
