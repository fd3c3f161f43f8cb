package render

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// The test's own program is the child too.
func TestMain(m *testing.M) {
	if os.Args[0] == Work.Role {
		os.Exit(Main(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// Given templates, when they are rendered in a child, then they become what this process would make of them, byte for
// byte, and what is wrong with them is said in the same words.
func TestTheChildRendersAsThisProcessWould(t *testing.T) {
	r := NewRenderer()
	vars := map[string]string{"A": "a", "B": "\xff\x00", "attr.os.name": "debian"}
	for name, tmpl := range map[string]Template{
		"text":         {Name: "t", Text: "plain } text\xff"},
		"an action":    {Name: "t", Text: `{{ env "A" }} {{ env "attr.os.name" }} {{ env "none" }}.`},
		"bytes":        {Name: "t", Text: "\xfe{{ env \"B\" }}{{ \"/w==\" | base64Decode }}"},
		"delimiters":   {Name: "t", Text: `[[ env "A" ]] {{ kept }}`, Left: "[[", Right: "]]"},
		"a typo":       {Name: "t", Text: "{{ nope }}"},
		"missing":      {Name: "t", Text: `{{ mustEnv "none" }}`},
		"a missed key": {Name: "t", Text: `{{ (parseJSON "{}").x }}`, MissingIsError: true},
		"nothing":      {Name: "t"},
		"a variable":   {Name: "t", Text: "a\n{{ (nomadVar \"v\").k }}\n"},
		"more":         {Name: "t", Text: `{{ nomadVar "w" }}{{ nomadServices }}{{ nomadService 2 "k" "s" }}`},
	} {
		t.Run(name, func(t *testing.T) {
			known := Known{{Kind: Variable, Name: "v"}: `{"k":"known"}`}
			here, hereErr := Execute(tmpl, Values{Env: func(k string) string { return vars[k] }, Known: known})
			there, thereErr := r.Render(t.Context(), tmpl, vars, known)
			if (here == nil) != (there == nil) || here != nil && (string(here.Data) != string(there.Data) ||
				!slices.Equal(here.Asks, there.Asks) || !slices.Equal(here.Waits, there.Waits)) {
				t.Errorf("it renders %+v, want %+v", there, here)
			}
			if (hereErr == nil) != (thereErr == nil) ||
				hereErr != nil && (hereErr.Error() != thereErr.Error() || !fault.Has(thereErr, fault.Invalid)) {
				t.Errorf("it says %v, want %v", thereErr, hereErr)
			}
		})
	}
}

// Given templates that multiply what they are given, or go on for ever, when they are rendered, then a bound ends that,
// and its author reads which one it was and of which template.
func TestARenderingIsBounded(t *testing.T) {
	r := NewRenderer()
	long := strings.Repeat("a", 200_000)
	const deep = "exceeded maximum template depth|more than 256 MiB of memory"
	for text, says := range map[string]string{
		`{{ $x := "x" }}{{ range 40 }}{{ $x = print $x $x }}{{ end }}`: "more than 256 MiB of memory",
		`{{ replaceAll "a" "` + long + `" "` + long + `" }}`:           "more than 256 MiB of memory",
		`{{ range 9000000000000000000 }}{{ end }}`:                     "more than 2s of processor time",
		// Of the two bounds that end it the one of memory comes first where the race detector takes of it, too.
		`{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`: deep,
		`{{ range 9000000 }}` + long + `{{ end }}`:                      "renders more than 8388608 bytes",
		strings.Repeat("{{if 1}}", 900_000):                             "the bound is 1048576",
	} {
		_, err := r.Render(t.Context(), Template{Name: `template 1 ("local/x")`, Text: text}, nil, nil)
		one := func(s string) bool { return strings.Contains(err.Error(), s) }
		if !fault.Has(err, fault.Invalid) || !slices.ContainsFunc(strings.Split(says, "|"), one) ||
			!strings.Contains(err.Error(), `template 1 ("local/x")`) {
			t.Errorf("%.60q: %.300v, want %q", text, err, says)
		}
	}
}

// Given a template that waits for its turn, when its task is stopped, then it waits no longer.
func TestARenderingEndsWithItsTask(t *testing.T) {
	r := NewRenderer()
	for range cap(r.turns) {
		r.turns <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Render(ctx, Template{Name: "t", Text: "{{ 1 }}"}, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
