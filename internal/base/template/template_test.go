package template_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	gotemplate "text/template"

	"berth/internal/base/template"
)

// named is a type with a method of fmt's, which counts, and fields of many kinds.
type named struct {
	Name   string
	hidden string
	Next   *named
	List   []string
	Counts map[string]int
	Any    any
	Call   func(int) int
	Bytes  []byte
	Float  float64
	Uint   uint8
}

type stringer int

func (s *stringer) String() string { return fmt.Sprintf("<%d>", int(*s)) }

type label string

func world() map[string]any {
	one := stringer(7)
	return map[string]any{
		"n":       3,
		"zero":    0,
		"minus":   -2,
		"u":       uint16(3),
		"f":       2.5,
		"yes":     true,
		"no":      false,
		"s":       "a<b>&'c\"\n",
		"empty":   "",
		"nothing": nil,
		"list":    []any{1, "two", nil, 3.0, []int{1, 2}},
		"ints":    []int{5, 4, 3},
		"none":    []int{},
		"array":   [2]string{"x", "y"},
		"m":       map[string]any{"b": 1, "a": "x", "c": map[string]int{"z": 1}},
		"keys":    map[int]string{2: "two", 1: "one"},
		"labels":  map[label]int{"l": 1},
		"nilmap":  map[string]string(nil),
		"bools":   map[bool]int{true: 1, false: 0},
		"p":       &named{Name: "first", Next: &named{Name: "second"}, List: []string{"q"}, Any: 9},
		"v": named{
			Name:   "v",
			hidden: "h",
			Counts: map[string]int{"k": 4},
			Call:   func(i int) int { return i + 1 },
		},
		"nilp":   (*named)(nil),
		"str":    &one,
		"strs":   []stringer{1, 2},
		"label":  label("l"),
		"func":   func(a string, more ...int) (string, error) { return fmt.Sprint(a, more), nil },
		"fails":  func() (string, error) { return "", errors.New("it fails") },
		"panics": func() string { panic("it panics") },
		"ptr":    new(int),
		"c":      complex(1, 2),
		"err":    errors.New("an error"),
	}
}

var functions = map[string]any{
	"text":    func(s string) string { return "text:" + s },
	"number":  func(i int64) int64 { return i * 2 },
	"natural": func(u uint) uint { return u },
	"real":    func(f float64) float64 { return f },
	"flag":    func(b bool) bool { return !b },
	"any":     func(v any) string { return fmt.Sprintf("%T", v) },
	"all":     func(first string, rest ...any) int { return len(rest) },
	"fail":    func() (string, error) { return "", errors.New("it fails") },
	"panic":   func() string { panic("it panics") },
	"pointer": func(n *named) bool { return n == nil },
	"list":    func(s ...string) []string { return s },
	"nothing": func() any { return nil },
}

// both executes a template here and in Go's text/template, and compares. It reports what Go gave.
func both(t *testing.T, text string, missing bool) (string, error) {
	t.Helper()
	option := "missingkey=default"
	if missing {
		option = "missingkey=error"
	}
	var want, got strings.Builder
	std, wantErr := gotemplate.New("t").Funcs(functions).Option(option).Parse(text)
	ours, err := template.Parse("t", text, template.Options{Functions: functions, MissingIsError: missing})
	if (wantErr == nil) != (err == nil) {
		t.Fatalf("%s: parsed: %v, Go says %v", text, err, wantErr)
	}
	if wantErr != nil {
		return "", wantErr
	}
	data := world()
	wantErr = std.Execute(&want, data)
	err = ours.Execute(&got, data)
	switch {
	case (wantErr == nil) != (err == nil):
		t.Errorf("%s: error %v, Go says %v", text, err, wantErr)
	case err != nil && !alike(err.Error(), wantErr.Error()):
		t.Errorf("%s:\n%v\nGo says\n%v", text, err, wantErr)
	case got.String() != want.String():
		t.Errorf("%s: %q, Go says %q", text, got.String(), want.String())
	}
	return want.String(), wantErr
}

// alike compares the reasons of errors. Where they are found, ours say at times more exactly; addresses of pointers
// differ from run to run; of what is nil, what is to be called, and which type hides a field they say more.
func alike(a, b string) bool {
	reason := func(s string) string {
		if i := strings.LastIndex(s, ">: "); i >= 0 {
			s = s[i:]
		}
		for _, from := range []string{"0x", "error calling call: ", "error calling len: ", " of struct type "} {
			s, _, _ = strings.Cut(s, from)
		}
		return s
	}
	return reason(a) == reason(b)
}

var expressions = []string{
	`.`, `.n`, `.zero`, `.minus`, `.u`, `.f`, `.yes`, `.no`, `.s`, `.empty`, `.nothing`, `.list`, `.ints`, `.none`,
	`.array`,
	`.m`, `.m.a`, `.m.c.z`, `.m.none`, `.m.none.deeper`, `.keys`, `.labels`, `.labels.l`, `.nilmap`, `.nilmap.x`,
	`.bools`,
	`.p.Name`, `.p.Next.Name`, `.p.Next.Next`, `.p.Next.Next.Name`, `.p.Any`, `.p.Any.More`, `.p.Nowhere`, `.p.List`,
	`.v.Name`, `.v.hidden`, `.v.Counts.k`, `.v.Call`, `.v.Bytes`, `.v.Float`, `.v.Uint`, `.nilp`, `.nilp.Name`,
	`.nilp.Nowhere`,
	`.str`, `.strs`, `.label`, `.func`, `.ptr`, `.c`, `.err`, `.missing`, `.missing.deeper`,
	`1`, `-1`, `0x1F`, `'a'`, `1.5`, `1e3`, `1_000`, `0b11`, `1i`, `"text"`, "`raw`", `true`, `nil`,
	`9223372036854775807`, `18446744073709551615`, `$`, `$.n`, `$.p.Name`, `(.n)`, `(.p).Name`, `(index .list 1)`,
	`(.p.Next).Name`,
	`(index .m "c").z`, `(printf "%d" .n)`, `(len .ints)`, `(nothing)`, `nothing`, `fail`, `panic`, `(list "a" "b")`,
	`(call .v.Call 4)`, `(call .func "a" 1 2)`, `(call .fails)`, `(call .panics)`, `(call .n)`, `(call .nothing)`,
	`(.n | number)`, `(.u | natural)`, `(not .no)`, `(and .n .zero .s)`, `(or .zero .empty .n)`, `(and)`,
	`(or .n (fail))`,
	`(slice .s 1 2)`, `(slice .ints 1)`, `(slice .ints 0 1 2)`, `(slice .ints 2 1)`, `(html .s)`, `(js .s)`,
	`(urlquery .s .n)`,
	`(print .n .s .yes)`, `(println .n)`, `(text .s).x`,
}

// Given every expression in every place, when it is executed, then the result is what Go's text/template gives, and
// what is wrong is said in the same words.
func TestEveryExpressionMeansWhatItMeansInGo(t *testing.T) {
	t.Parallel()
	places := []string{
		`{{E}}`, `{{- E -}} x`, `{{if E}}y{{else}}n{{end}}`, `{{with E}}[{{.}}]{{else}}-{{.n}}{{end}}`,
		`{{with $x := E}}{{$x}}{{end}}`, `{{range E}}({{.}}){{else}}none{{end}}`,
		`{{range $i, $e := E}}{{$i}}={{$e}};{{end}}`,
		`{{range $e := E}}{{$e}}{{end}}`, `{{$x := 1}}{{range $x = E}}{{end}}{{$x}}`,
		`{{$a := 1}}{{$b := 2}}{{range $a, $b = E}}{{end}}{{$a}}{{$b}}`,
		`{{len E}}`, `{{index E 0}}`, `{{index E 9}}`, `{{index E "a"}}`, `{{index E}}`, `{{index .keys E}}`,
		`{{index .ints E}}`,
		`{{slice E 1}}`, `{{not E}}`, `{{E | not}}`, `{{printf "%v %T" E E}}`, `{{E | printf "%v"}}`, `{{text E}}`,
		`{{E | text}}`,
		`{{number E}}`, `{{E | number}}`, `{{natural E}}`, `{{real E}}`, `{{flag E}}`, `{{any E}}`, `{{E | any}}`,
		`{{all E}}`,
		`{{all "x" E}}`, `{{E | all "x"}}`, `{{pointer E}}`, `{{list "a" E}}`, `{{E | list}}`, `{{E 1}}`, `{{.n | E}}`,
		`{{$x := E}}{{$x}}{{$x = 2}}{{$x}}`, `{{template "d" E}}{{define "d"}}<{{.}}>{{end}}`,
		`{{block "b" E}}{{.}}{{end}}`,
		`{{call E}}`, `{{call E 1}}`, `{{and E 1}}`, `{{or E 1}}`, `{{E | and 1}}`, `{{E | or 0}}`, `{{html E}}`,
		`{{js E}}`, `{{urlquery E}}`,
		`{{print E}}`, `{{if E}}{{else if not E}}z{{end}}`, `{{with E}}{{else with .n}}{{.}}{{end}}`,
		`{{(E).Name}}`, `{{with E}}{{.Name}}{{end}}`, `{{with E}}{{.x.y}}{{end}}`,
	}
	ran, failed := 0, 0
	for _, e := range expressions {
		for _, p := range places {
			if strings.Contains(p, "range") && strings.HasPrefix(e, "922") {
				continue // it would go round for ever
			}
			text := strings.ReplaceAll(p, "E", e)
			for _, missing := range []bool{false, true} {
				out, err := both(t, text, missing)
				if ran++; err != nil || out == "" {
					failed++
				}
			}
		}
	}
	if ran-failed < ran/4 {
		t.Errorf("of %d only %d gave a text: they show too little", ran, ran-failed)
	}
}

// Given any two values, when they are compared, then the answer is Go's.
func TestValuesCompareAsInGo(t *testing.T) {
	t.Parallel()
	for _, a := range expressions {
		for _, b := range expressions {
			for _, f := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
				both(t, fmt.Sprintf(`{{%s %s %s}}`, f, a, b), false)
			}
			both(t, fmt.Sprintf(`{{eq %s 77 %s}}`, a, b), false)
		}
	}
}

// Given blocks in blocks, when they end early, define each other or set variables of outer ones, then it is as in Go.
func TestBlocksMeanWhatTheyMeanInGo(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `plain`, `{{/* comment */}}`, `{{range .ints}}{{if eq . 4}}{{break}}{{end}}{{.}}{{end}}`,
		`{{range .ints}}{{if eq . 4}}{{continue}}{{end}}{{.}}{{end}}`,
		`{{range .ints}}{{range $.array}}{{if eq . "y"}}{{break}}{{end}}{{.}}{{end}}{{.}}{{else}}x{{end}}`,
		`{{range .ints}}{{with .}}{{if eq . 4}}{{continue}}{{end}}{{.}}{{end}}{{end}}`,
		`{{$n := 0}}{{range .ints}}{{$n = .}}{{end}}{{$n}}`, `{{$n := 0}}{{range .ints}}{{$n := .}}{{end}}{{$n}}`,
		`{{range $i, $e := .ints}}{{$i = 8}}{{$i}}{{$e}}{{end}}`,
		`{{range $i, $e := .ints}}{{$x := $i}}{{$y := $e}}{{$i}}{{$e}}{{$x}}{{$y}}{{end}}`, `{{range 3}}{{.}}{{end}}`,
		`{{range $i := .u}}{{$i}}{{end}}`,
		`{{range 0}}{{else}}none{{end}}`, `{{range $i, $e := 3}}{{end}}`, `{{if .yes}}{{$x := 1}}{{$x}}{{end}}`,
		`{{template "none"}}`,
		`{{define "a"}}{{.}}{{template "b" .}}{{end}}{{define "b"}}{{len .}}{{end}}{{template "a" .ints}}`,
		`{{define "a"}}{{$.n}}{{$}}{{end}}{{template "a" .m}}`, `{{define "a"}}x{{end}}{{template "a"}}`,
		`{{define "a"}}{{if .}}{{template "a" (slice . 1)}}{{index . 0}}{{end}}{{end}}{{template "a" .ints}}`,
		`{{define "a"}}{{.Nowhere}}{{end}}{{template "a" .p}}`,
		`{{with $x := .n}}{{$x}}{{with $y := $x}}{{$y}}{{end}}{{end}}`,
		`{{.n}}{{fail}}{{.s}}`, `{{break}}`, `{{unknown}}`, `{{`, `{{.n | }}`, `{{1 | 2}}`, `{{$x}}`,
		"{{- range $k, $v := .m -}}\n{{ $k }}: {{ $v }}\n{{ end -}}", `{{range .list}}{{printf "%v," .}}{{end}}`,
		`{{range .nothing}}x{{else}}{{.n}}{{end}}`, `{{ "a" | printf "%s-%s" "b" | len }}`, `{{ (.m.c).z }}`,
		`{{ .m.c.z 1 }}`,
	} {
		both(t, text, false)
		both(t, text, true)
	}
}

// members is a value that says what it has.
type members struct{ Field string }

func (m members) Member(name string) (any, bool) {
	switch name {
	case "Greeting":
		return "hello", true
	case "Has":
		return func(s string) bool { return s == m.Field }, true
	case "Field":
		return nil, false
	case "Sum":
		return func(n ...int) (int, error) {
			if len(n) == 0 {
				return 0, errors.New("nothing to add")
			}
			return n[0] + len(n), nil
		}, true
	}
	return nil, false
}

func (m members) Text() string { return "text of " + m.Field }

// Given a value that has members beside its fields, when a template names one, then it is given, or called with what
// follows; where a function takes a text, it is its text.
func TestAValueSaysWhichMembersItHas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{.o.Greeting}} {{.o.Field}}`:        "hello f",
		`{{.o.Has "f"}} {{.p.Has "g"}}`:       "true false",
		`{{.o.Sum 4 5}}`:                      "6",
		`{{4 | .o.Sum}}`:                      "5",
		`{{if .o.Has "f"}}yes{{end}}`:         "yes",
		`{{text .o}} {{.p | text}}`:           "text:text of f text:text of f",
		`{{(index .list 0).Greeting}}`:        "hello",
		`{{range .list}}{{.Greeting}}{{end}}`: "hello",
		`{{.o.Greeting 1}}`:                   "error: Greeting has arguments but cannot be invoked as function",
		`{{.o.Sum}}`:                          "error: error calling Sum: nothing to add",
		`{{.o.Has}}`:                          "error: wrong number of args for Has: want 1 got 0",
		`{{.o.Nothing}}`:                      "error: can't evaluate field Nothing in type ",
		`{{.nil.Greeting}}`:                   "error: can't evaluate field Greeting in type interface {}",
		`{{define "x"}}{{template "x" .}}{{end}}{{template "x"}}`: "error: exceeded maximum template depth",
	} {
		tpl, err := template.Parse("t", text, template.Options{Functions: functions})
		if err != nil {
			t.Fatal(err)
		}
		o := members{"f"}
		data := map[string]any{"o": o, "p": &o, "list": []members{o}, "nil": (*members)(nil)}
		var b strings.Builder
		err = tpl.Execute(&b, data)
		if reason, fails := strings.CutPrefix(want, "error: "); fails {
			if err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: %q, %v; want the error %q", text, b.String(), err, reason)
			}
		} else if err != nil || b.String() != want {
			t.Errorf("%s: %q, %v; want %q", text, b.String(), err, want)
		}
	}
}

// Given functions that are none, or that return what none may, when a template is parsed, then that is refused.
func TestFunctionsAreJudgedWhenATemplateIsParsed(t *testing.T) {
	t.Parallel()
	for _, fn := range []any{
		3, nil, func() {}, func() (int, int) { return 1, 2 }, func() (int, int, error) { return 1, 2, nil },
	} {
		if _, err := template.Parse("t", "x", template.Options{Functions: template.Functions{"f": fn}}); err == nil {
			t.Errorf("%T was taken for a function", fn)
		}
	}
}

// Given a template with others in it, when one is executed by its name, then only its text is there.
func TestANamedTemplateIsExecuted(t *testing.T) {
	t.Parallel()
	tpl, err := template.Parse("t", `x{{define "a"}}<{{.}}>{{end}}`, template.Options{Left: "", Right: ""})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	found, err := tpl.ExecuteNamed(&b, "a", 5)
	if !found || err != nil || b.String() != "<5>" {
		t.Errorf("%v %v %q", found, err, b.String())
	}
	if found, err = tpl.ExecuteNamed(&b, "b", 5); found || err != nil {
		t.Errorf("%v %v", found, err)
	}
	if tpl, err = template.Parse("t", `[[.]]{{`, template.Options{Left: "[[", Right: "]]"}); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err = tpl.Execute(&b, 1); err != nil || b.String() != "1{{" {
		t.Errorf("%v %q", err, b.String())
	}
}
