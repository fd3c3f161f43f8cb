package render

import (
	"reflect"
	"strings"
	"testing"
)

// Given what Consul has said, then the functions of its keys and services give what users of them expect.
func TestWhatFunctionsOfConsulGive(t *testing.T) {
	pairs := `[{"Key":"","Path":"app/"},{"Key":"port","Path":"app/port","Value":"80","ModifyIndex":7},` +
		`{"Key":"db/","Path":"app/db/"},{"Key":"db/host","Path":"app/db/host","Value":"h","Flags":3}]`
	known := Known{
		{Kind: ConsulKey, Name: "a"}:         `"one"`,
		{Kind: ConsulKey, Name: "empty"}:     `""`,
		{Kind: ConsulKey, Name: "none"}:      "",
		{Kind: ConsulKeys, Name: "app"}:      pairs,
		{Kind: ConsulService, Name: "web"}:   `[{"Name":"web","Address":"10.0.0.1","Port":80,"Tags":["x","y"]}]`,
		{Kind: ConsulService, Name: "node"}:  `[{"NodeAddress":"::2"},{"Address":"::3","NodeAddress":"::2"}]`,
		{Kind: ConsulServices}:               `[{"Name":"web","Tags":["x"]}]`,
		{Kind: ConsulService, Name: "w|any"}: `[{"ID":"i","Status":"critical","NodeMeta":{"k":"v"}}]`,
	}
	for text, want := range map[string]string{
		`{{ keyOrDefault "a" "x" }} {{ keyOrDefault "empty" "y" }} {{ "z" | keyOrDefault "none" }}`: "one y z",

		`{{ key "a" }}`: "one",
		`{{ keyExists "a" }} {{ keyExists "empty" }} {{ keyExists "none" }}`:                  "true true false",
		`{{ range ls "app" }}{{ .Key }}={{ .Value }}@{{ .ModifyIndex }} {{ .Path }}{{ end }}`: "port=80@7 app/port",
		`{{ range tree "app" }}{{ .Key }}:{{ .Flags }} {{ end }}`:                             "port:0 db/host:3 ",
		`{{ range safeTree "app" }}{{ .Key }} {{ end }}{{ len (safeLs "app") }}`:              "port db/host 1",

		`{{ tree "app" | explode | toJSON }}`: `{"db":{"host":"h"},"port":"80"}`,

		`{{ range service "web" }}{{ .Name }} {{ .Address }}:{{ .Port }}{{ end }}`:        "web 10.0.0.1:80",
		`{{ range service "w" "any" }}{{ .ID }} {{ .Status }} {{ .NodeMeta.k }}{{ end }}`: "i critical v",
		`{{ range service "node" }}{{ .Address }} {{ end }}`:                              "::2 ::3 ",
		`{{ range $t, $s := service "web" | byTag }}{{ $t }}{{ len $s }}{{ end }}`:        "x1y1",
		`{{ range services }}{{ .Name }}{{ .Tags | join "," }}{{ end }}`:                  "webx",
	} {
		out, err := Execute(Template{Name: "t", Text: text}, Values{Known: known})
		if err != nil || string(out.Data) != want {
			t.Errorf("%s: %q, %v; want %q", text, out.Data, err, want)
		}
	}
}

// Given that a key is not there, or that none is below a path that is to have some, then the rendering waits for it by
// its name; an empty list alone is no reason to.
func TestARenderingWaitsForWhatConsulLacks(t *testing.T) {
	known := Known{{Kind: ConsulKey, Name: "a"}: "", {Kind: ConsulKeys, Name: "d"}: "[]"}
	for text, want := range map[string]string{
		`{{ key "a" }}`:                               `key "a" of Consul`,
		`{{ range safeLs "d" }}{{ end }}`:             `keys of Consul below "d"`,
		`{{ range safeTree "d" }}{{ end }}`:           `keys of Consul below "d"`,
		`{{ range safeLs "not asked yet" }}{{ end }}`: "",
		`{{ range ls "d" }}{{ end }}{{ range tree "d" }}{{ end }}{{ keyOrDefault "a" "" }}`: "",
	} {
		out, err := Execute(Template{Name: "t", Text: text}, Values{Known: known})
		if err != nil {
			t.Fatal(err)
		}
		if said := ""; len(out.Waits) > 0 || want != "" {
			if len(out.Waits) == 1 {
				said = out.Waits[0].String()
			}
			if said != want {
				t.Errorf("%s waits for %v, want %q", text, out.Waits, want)
			}
		}
	}
}

// Given what stands in a template, then Consul is asked for a part of it each, and what it could not be asked for is an
// error that shows the form.
func TestWhatConsulIsAskedForIsRead(t *testing.T) {
	for s, want := range map[Source]Asked{
		{Kind: ConsulKey, Name: "/a/b@dc2"}:                 {Name: "a/b", Datacenter: "dc2"},
		{Kind: ConsulKey, Name: "me@example.org@dc2"}:       {Name: "me@example.org", Datacenter: "dc2"},
		{Kind: ConsulService, Name: "web"}:                  {Name: "web", Statuses: []string{"passing"}},
		{Kind: ConsulService, Name: "web|warning,any"}:      {Name: "web"},
		{Kind: ConsulService, Name: "v1.2.web@dc|any"}:      {Name: "web", Tag: "v1.2", Datacenter: "dc"},
		{Kind: ConsulService, Name: "web|passing, warning"}: {Name: "web", Statuses: []string{"passing", "warning"}},
		{Kind: ConsulServices, Name: "@dc"}:                 {Datacenter: "dc"},
		{Kind: ConsulKeys, Name: "a/"}:                      {Name: "a/"},
	} {
		if got, err := s.Asked(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %+v, %v; want %+v", s, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{{ key "" }}`:             "the path of a key is missing",
		`{{ key "a@d c" }}`:        "no name of a datacenter",
		`{{ service "web~near" }}`: "write TAG.NAME@DC|STATUS",
		`{{ service "web|good" }}`: "is no status",
		`{{ services "dc" }}`:      "write @NAME",
		`{{ services "@a" "@b" }}`: "takes a datacenter",
		`{{ "a" | byTag }}`:        "takes the instances",
	} {
		_, err := Execute(Template{Name: "t", Text: text}, Values{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestWhoIsAskedIsKnown: templates that read Consul are told from those that read the servers alone.
func TestWhoIsAskedIsKnown(t *testing.T) {
	for text, want := range map[string][2]bool{
		`{{ key "a" }}`: {true, true},
		`{{ if false }}{{ service "a" }}{{ end }}`: {true, true},
		`{{ nomadVar "key" }}`:                     {true, false},
		`{{ env "service" }} key "a"`:              {false, false},
	} {
		tpl := Template{Name: "t", Text: text}
		if got := [2]bool{Reads(tpl), ReadsConsul(tpl)}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
