package render

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// Given templates, when they are checked, then those that no rendering can make right are refused with the place, and
// what is missing is named.
func TestWhatCanNeverBeRenderedIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{{ env \"A\" | toUpper }}{{ range split \",\" \"a\" }}{{ . }}{{ break }}{{ end }}":      "",
		"{{ nomadVar \"x\" }}{{ nomadVarExists \"x\" }}{{ nomadVarList }}{{ nomadVarListSafe }}": "",
		"{{ nomadService \"x\" }}{{ nomadServices }}":                                            "",
		"{{ key \"x\" }}{{ ls \"x\" | len }}{{ range service \"x\" }}{{ .Port }}{{ end }}":       "",
		"a\n{{ caRoots }}": `at 2:3 the function "caRoots" is not built yet: templates read no certificates of Consul`,
		"{{ if env \"A\" }}{{ else }}{{ with secret \"x\" }}{{ end }}{{ end }}": "templates read no Vault",
		"{{ (node \"x\").Y }}":                  "templates read no nodes of Consul",
		"{{ define \"a\" }}{{ nope }}{{ end }}": `there is no function "nope"`,
		"{{ if }":                               ":1: unexpected",
	} {
		err := Check(Template{Name: "t", Text: text})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	several := `{{ node "a" }}{{ node "b" }}{{ range nodes "c" }}{{ nope }}{{ end }}`
	all := Check(Template{Name: "t", Text: several})
	for _, want := range []string{`1:3 the function "node"`, `the function "nodes"`, `no function "nope"`} {
		if all == nil || strings.Count(all.Error(), want) != 1 {
			t.Errorf("%v, want %q once", all, want)
		}
	}
	if err := Check(Template{Name: "t", Text: "[[ nope ]] {{ nope }}", Left: "[[", Right: "]]"}); err == nil ||
		strings.Contains(err.Error(), "1:15") {
		t.Errorf("with delimiters of its own: %v", err)
	}
}

// Given templates whose control structures lie in each other beyond any use, or whose text is as large as a disk image,
// when they are checked, then they are refused by a bound before the parser meets them, whose stack they would
// overflow; and one at the bounds is taken.
func TestWhatWouldOverwhelmTheParserIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ begin, want string }{
		"if":           {"{{if 1}}", "more than 10000 of if,"},
		"trimmed":      {"{{- \n range .}}", "more than 10000 of if,"},
		"else":         {"{{if 1}}{{else if 1}}", "more than 10000 of if,"},
		"block":        {"{{block \"a\" .}}", "more than 10000 of if,"},
		"parentheses":  {"{{" + strings.Repeat("(", 20_000), "max expression depth exceeded"},
		"a large text": {strings.Repeat("x", 1_000), "the bound is 1048576"},
	} {
		times := 20_000
		if name == "parentheses" {
			times = 1
		}
		err := Check(Template{Name: "t", Text: strings.Repeat(c.begin, times)})
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	if err := Check(Template{Name: "t", Text: strings.Repeat("<if 1>", 20_000), Left: "<", Right: ">"}); err == nil ||
		!strings.Contains(err.Error(), "more than 10000") {
		t.Errorf("with delimiters of its own: %.300v", err)
	}
	text := strings.Repeat("{{if 1}}", maxControls) + strings.Repeat("{{end}}", maxControls)
	text += strings.Repeat(" ", maxText-len(text))
	if err := Check(Template{Name: "t", Text: text}); err != nil {
		t.Errorf("at the bounds: %.300v", err)
	}
}
