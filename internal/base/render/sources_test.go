package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// Given what the servers have said, when a template is rendered, then it has that; what they were not asked for yet it
// asks for, what is not there it waits for, and nothing else of it counts until all is there.
func TestATemplateReadsTheServers(t *testing.T) {
	at := func(path string) Source { return Source{Kind: Variable, Name: path} }
	below := func(path string) Source { return Source{Kind: Variables, Name: path} }
	known := Known{
		at("v"):                       `{"k":"x","n":"1"}`,
		at("gone"):                    "",
		{Kind: Variables, Name: "v"}:  `[{"Namespace":"default","Path":"v"}]`,
		{Kind: Variables, Name: "w"}:  `[]`,
		{Kind: Service, Name: "web"}:  `[{"Name":"web","Address":"10.0.0.1","Port":80,"Tags":["a"]}]`,
		{Kind: Services}:              `[{"Name":"web","Tags":["a"]}]`,
		{Kind: Service, Name: "none"}: `[]`,
		{Kind: Service, Name: "web", Choose: 1, Key: "me"}: `[{"Port":81}]`,
	}
	for text, want := range map[string]struct {
		data  string
		asks  []Source
		waits []Source
	}{
		`{{ with nomadVar "v" }}{{ .k }}{{ end }}`:                          {data: "x"},
		`{{ range $k, $v := nomadVar "v" }}{{ $k }}={{ $v }};{{ end }}`:     {data: "k=x;n=1;"},
		`{{ if nomadVarExists "gone" }}a{{ else }}b{{ end }}`:               {data: "b"},
		`{{ if nomadVarExists "v" }}a{{ end }}`:                             {data: "a"},
		`{{ (nomadVar "gone").k }}`:                                         {waits: []Source{at("gone")}},
		`{{ (nomadVar "new").k }}{{ (nomadVar "gone").k }}`:                 {asks: []Source{at("new")}},
		`{{ (nomadVar "new").k | parseInt }}`:                               {asks: []Source{at("new")}},
		`{{ if nomadVarExists "new" }}a{{ end }}`:                           {asks: []Source{at("new")}},
		`{{ range nomadVarList "v" }}{{ . }} {{ .Path }}{{ end }}`:          {data: "v v"},
		`{{ range nomadVarList "w" }}{{ . }}{{ end }}.`:                     {data: "."},
		`{{ range nomadVarListSafe "w" }}{{ . }}{{ end }}.`:                 {waits: []Source{below("w")}},
		`{{ range nomadService "web" }}{{ .Address }}:{{ .Port }}{{ end }}`: {data: "10.0.0.1:80"},
		`{{ range nomadService 1 "me" "web" }}{{ .Port }}{{ end }}`:         {data: "81"},
		`{{ range nomadService "none" }}{{ .Port }}{{ end }}.`:              {data: "."},
		`{{ range nomadServices }}{{ .Name }}{{ .Tags }}{{ end }}`:          {data: "web[a]"},
	} {
		tmpl := Template{Name: "t", Text: text, MissingIsError: true}
		got, err := Execute(tmpl, Values{Known: known})
		if err != nil || string(got.Data) != want.data || !slices.Equal(got.Asks, want.asks) ||
			!slices.Equal(got.Waits, want.waits) {
			t.Errorf("%s: %+v %v, want %+v", text, got, err, want)
		}
		if !Reads(tmpl) {
			t.Errorf("%s is taken for one that reads nothing", text)
		}
	}
	for text, says := range map[string]string{
		`{{ (nomadVar "v").none }}`:                        "no entry for key",
		`{{ nomadService 0 "k" "web" }}`:                   "a number above 0",
		`{{ nomadService "k" "web" }}`:                     "a number above 0",
		`{{ nomadVarList "a" "b" }}`:                       "the beginning of paths",
		`{{ range 200 }}{{ nomadVar (print .) }}{{ end }}`: "",
	} {
		_, err := Execute(Template{Name: "t", Text: text, MissingIsError: true}, Values{Known: known})
		if says != "" && (!fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	if Reads(Template{Name: "t", Text: `nomadVar {{ env "nomadVar" }}`}) {
		t.Error("what reads nothing is taken for one that does")
	}
}

// A template that finds ever more to read comes to an end.
func TestHowMuchATemplateReads(t *testing.T) {
	known := Known{}
	for i := range MaxSources {
		known[Source{Kind: Variable, Name: fmt.Sprint(i)}] = `{}`
	}
	got, err := Execute(Template{Name: "t", Text: `{{ nomadVar "more" }}`}, Values{Known: known})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "more than 100") {
		t.Errorf("%+v %v", got, err)
	}
}
