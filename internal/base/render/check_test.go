package render

import (
	"strings"
	"testing"
)

// Given templates, when they are checked, then those that no rendering can make right are refused with the place, and
// what is missing is named.
func TestWhatCanNeverBeRenderedIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{{ env \"A\" | toUpper }}{{ range split \",\" \"a\" }}{{ . }}{{ break }}{{ end }}": "",
		"a\n{{ nomadVar \"x\" }}": `at 2:3 the function "nomadVar" is not built yet: templates read no variables`,
		"{{ if env \"A\" }}{{ else }}{{ with secret \"x\" }}{{ end }}{{ end }}": "templates read no Vault",
		"{{ (key \"x\").Y }}":                   "templates read no Consul",
		"{{ define \"a\" }}{{ nope }}{{ end }}": `there is no function "nope"`,
		"{{ if }":                               ":1: unexpected",
	} {
		err := Check(Template{Name: "t", Text: text})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	several := `{{ key "a" }}{{ key "b" }}{{ range service "c" }}{{ nope }}{{ end }}`
	all := Check(Template{Name: "t", Text: several})
	for _, want := range []string{`1:3 the function "key"`, `the function "service"`, `no function "nope"`} {
		if all == nil || strings.Count(all.Error(), want) != 1 {
			t.Errorf("%v, want %q once", all, want)
		}
	}
	if err := Check(Template{Name: "t", Text: "[[ nope ]] {{ nope }}", Left: "[[", Right: "]]"}); err == nil ||
		strings.Contains(err.Error(), "1:15") {
		t.Errorf("with delimiters of its own: %v", err)
	}
}
