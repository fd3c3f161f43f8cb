package variable

import (
	"strings"
	"testing"
)

// Given bounds of a namespace, then what fits beside the others is written, and what takes no more than it replaces.
func TestHowMuchANamespaceHolds(t *testing.T) {
	b := Bounds{Number: 3, Bytes: 100}
	for name, c := range map[string]struct {
		b             Bounds
		before, after Taken
		want          string
	}{
		"the last one":           {b, Taken{2, 50}, Taken{3, 100}, ""},
		"one more":               {b, Taken{3, 50}, Taken{4, 60}, "would be 4, at most 3"},
		"a larger one":           {b, Taken{3, 100}, Taken{3, 101}, "would be 101 bytes, at most 100"},
		"a smaller one, above":   {b, Taken{9, 900}, Taken{9, 899}, ""},
		"as large, above":        {b, Taken{9, 900}, Taken{9, 900}, ""},
		"without bounds":         {Bounds{}, Taken{9, 900}, Taken{10, 1000}, ""},
		"without that of bytes":  {Bounds{Number: 3}, Taken{2, 900}, Taken{3, 1000}, ""},
		"without that of number": {Bounds{Bytes: 100}, Taken{9, 90}, Taken{10, 100}, ""},
	} {
		err := c.b.Admit("shop", "a", c.before, c.after)
		if err == nil != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
