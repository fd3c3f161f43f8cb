package render

import (
	"os"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// Given functions as the documentation of templates has them, then each gives what it says there, and an item of a
// variable is a text wherever one is wanted.
func TestWhatFunctionsGive(t *testing.T) {
	known := Known{
		{Kind: Variable, Name: "p"}:   `{"b":"2","a":"one","Keys":"k","c":""}`,
		{Kind: Service, Name: "web"}:  `[{"ID":"1","Tags":["x","y"]},{"ID":"2","Tags":["y"]}]`,
		{Kind: File, Name: "local/f"}: `"text"`,
	}
	for _, c := range [][2]string{
		{
			`{{ with nomadVar "p" }}{{ .a }} {{ .a.Value }} {{ .b | parseInt }}{{ end }}`,
			"one one 2",
		},
		{
			`{{ with nomadVar "p" }}{{ .a | toUpper }} {{ eq .b "2" }} {{ len .a }}{{ end }}`,
			"ONE true 3",
		},
		{
			`{{ range nomadVar "p" }}{{ . }},{{ end }}`,
			"k,one,2,,",
		},
		{
			`{{ range nomadVar "p" }}{{ .Key }}={{ .Value }} of {{ .Parent.Path }},{{ end }}`,
			"Keys=k of p,a=one of p,b=2 of p,c= of p,",
		},
		{
			`{{ with nomadVar "p" }}{{ .Parent }} {{ .Metadata.Path }} {{ .a.Key }}{{ if .c }}!{{ end }}{{ end }}`,
			"p p a",
		},
		{
			`{{ with nomadVar "p" }}{{ printf "%s %q %v" .a .a .a }} {{ slice .a 1 }} {{ lt .a .b }} {{ .c | len }}{{ end }}`,
			`one "one" one ne false 0`,
		},
		{
			`{{ with nomadVar "p" }}{{ with .c }}!{{ else }}{{ not .c }} {{ or .c .a }} {{ and .a .b }}{{ end }}{{ end }}`,
			"true one 2",
		},
		{
			`{{ range $k, $v := nomadVar "p" }}{{ $k }}={{ $v }} {{ end }}`,
			"Keys=k a=one b=2 c= ",
		},
		{
			`{{ with nomadVar "p" }}{{ .Keys | join "," }};{{ .Values | join "," }}{{ end }}`,
			"Keys,a,b,c;k,one,2,",
		},
		{
			`{{ with nomadVar "p" }}{{ range .Tuples }}{{ .K }}={{ .V | toJSON }} {{ end }}{{ end }}`,
			`Keys="k" a="one" b="2" c="" `,
		},
		{
			`{{ with nomadVar "p" }}{{ . | toJSON }}{{ end }}`,
			`{"Keys":"k","a":"one","b":"2","c":""}`,
		},
		{
			`{{ with nomadVar "p" }}{{ index . "a" }}{{ if .none }}!{{ end }}{{ end }}`,
			"one",
		},
		{
			`{{ file "local/f" }}`,
			"text",
		},
		{
			`{{ range $t, $l := nomadService "web" | byTag }}{{ $t }}{{ len $l }} {{ end }}`,
			"x1 y2 ",
		},
		{
			`{{ base64URLEncode "a?>" }} {{ base64URLDecode "YT8-" }}`,
			"YT8- a?>",
		},
		{
			`{{ "" | sha256Hex }}`,
			"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		},
		{
			`{{ "" | md5sum }}`,
			"d41d8cd98f00b204e9800998ecf8427e",
		},
		{
			`{{ hmacSHA256Hex "m" "k" | len }}`,
			"64",
		},
		{
			`{{ "foo.bar" | regexReplaceAll "foo([.a-z]+)" "$1" }}`,
			".bar",
		},
		{
			`{{ "1" | parseUint }}`,
			"1",
		},
		{
			`{{ with "a:1;b:2" | splitToMap ";" ":" }}{{ .b }}{{ end }}`,
			"2",
		},
		{
			`{{ parseJSON "{\"a\":1}" | toJSONPretty }}`,
			"{\n  \"a\": 1\n}",
		},
		{
			`{{ "<" | toUnescapedJSON }}{{ "<" | toJSON }}`,
			`"<""\u003c"`,
		},
		{
			`{{ $l := split "," "a,b" }}{{ $l | contains "b" }} {{ in $l "c" }} {{ "abc" | contains "b" }}`,
			"true false true",
		},
		{
			`{{ $l := split "," "a,b" }}{{ $n := split "," "a,c" }}{{ containsAll $n $l }} {{ containsAny $n $l }}`,
			"false true",
		},
		{
			`{{ $l := split "," "a,b" }}{{ $n := split "," "x,y" }}{{ containsNone $n $l }} {{ containsNotAll $n $l }}`,
			"true true",
		},
		{
			`{{ $l := split "," "a,b" }}{{ containsNone $l $l }} {{ containsNotAll $l $l }} {{ containsAll $l $l }}`,
			"false false true",
		},
		{
			`{{ range loop 3 }}{{ . }}{{ end }} {{ range $i := loop 5 8 }}{{ $i }}{{ end }}`,
			"012 567",
		},
		{
			`{{ range loop ("2" | parseInt) }}{{ . }}{{ end }}{{ range loop 2 1 }}{{ . }}{{ end }}`,
			"01",
		},
		{
			`{{ add 1 2 }} {{ subtract 2 5 }} {{ multiply 2 2 }} {{ 10 | divide 2 }} {{ modulo 2 5 }}`,
			"3 3 4 5 1",
		},
		{
			`{{ minimum 2 5 }} {{ maximum 2 5 }} {{ add 1.5 1 }} {{ divide 2.0 5 }}`,
			"2 5 2.5 2.5",
		},
		{
			`{{ with parseJSON "{\"a/b\":1,\"a/c\":2}" | explodeMap }}{{ .a.b }}{{ .a.c }}{{ end }}`,
			"12",
		},
		{
			`{{ $o := parseJSON "{\"a\":1}" }}{{ parseJSON "{\"a\":2,\"b\":3}" | mergeMap $o | toJSON }}`,
			`{"a":2,"b":3}`,
		},
		{
			`{{ $o := parseJSON "{\"a\":1}" }}{{ parseJSON "{\"a\":2}" | mergeMapWithOverride $o | toJSON }}`,
			`{"a":1}`,
		},
		{
			`{{ define "x" }}<{{ . }}>{{ end }}{{ executeTemplate "x" 42 }}{{ executeTemplate "x" "a" | toUpper }}`,
			"<42><A>",
		},
	} {
		text, want := c[0], c[1]
		got, err := Execute(Template{Name: "t", Text: text}, Values{Known: known})
		if err != nil || string(got.Data) != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		`{{ divide 0 1 }}`:                  "by 0",
		`{{ modulo 0 1 }}`:                  "by 0",
		`{{ add "1" 2 }}`:                   "no number",
		`{{ modulo 1.5 2 }}`:                "takes whole numbers",
		`{{ range loop 2000000 }}{{ end }}`: "more than 1000000 times",
		`{{ loop }}`:                        "one or two numbers",
		`{{ 7 | toUpper }}`:                 "wrong type for value; expected string; got int",
		`{{ define "x" }}{{ executeTemplate "x" }}{{ end }}{{ executeTemplate "x" }}`: "deep in each other",
		`{{ executeTemplate "none" }}`:                                     "no template named",
		`{{ "a" | splitToMap ";" ":" }}`:                                   "between a name and its value",
		`{{ 7 | contains "a" }}`:                                           "nothing is within",
		`{{ "x" | regexReplaceAll "(" "" }}`:                               "missing closing",
		`{{ define "x" }}{{ executeTemplate "x" }}{{ end }}{{ node "a" }}`: "templates read no nodes of Consul",
	} {
		_, err := Execute(Template{Name: "t", Text: text}, Values{Known: known})
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// The page of job files names every function that templates have.
func TestEveryFunctionIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/jobspec.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		if !strings.Contains(string(page), "`"+name+"`") && !slices.Contains(builtin, name) {
			t.Errorf("%s is not there", name)
		}
	}
}
