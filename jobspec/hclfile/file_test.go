package hclfile_test

import (
	"strings"
	"testing"
	"time"

	"berth/jobspec/hclfile"

	"github.com/google/go-cmp/cmp"
)

// wrong is a document and the first line of the refusal that it must get.
type wrong struct{ name, src, want string }

// agentConfig stands for a configuration of another package.
type agentConfig struct {
	DataDir string                 `hcl:"data_dir"`
	Ports   *ports                 `hcl:"ports,block"`
	Server  server                 `hcl:"server,block"`
	Volumes map[string]*hostVolume `hcl:"host_volume,block"`
	Plugins []plugin               `hcl:"plugin,block"`
	Meta    map[string]string      `hcl:"meta,map"`
	Ratio   float64                `hcl:"ratio"`
	Reserve int64                  `hcl:"reserve,bytes"`
	Level   level                  `hcl:"log_level"`
}

type ports struct {
	HTTP uint16 `hcl:"http"`
}

type server struct {
	Enabled *bool         `hcl:"enabled"`
	Grace   time.Duration `hcl:"grace"`
	Retry   []string      `hcl:"retry_join"`
}

type hostVolume struct {
	Name string `hcl:"name,label"`
	Path string `hcl:"path"`
}

type plugin struct {
	Name   string         `hcl:"name,label"`
	Config map[string]any `hcl:"config,any"`
}

// level is a type that reads itself.
type level int

func (l *level) UnmarshalText(text []byte) error {
	*l = level(len(text))
	return nil
}

const agentHCL = `
data_dir = "/var/lib/x"
"log_level" = "debug"
ratio = 0.5
reserve = "1MiB"
ports { http = 4646 }
server {
  enabled = true
  grace = "10s"
  retry_join = ["a", "b"]
}
host_volume "data" { path = "/srv" }
host_volume "more" {
  path = "/opt"
}
plugin "raw_exec" {
  config {
    enabled = true
    nested { deep = [1, "x"] }
  }
}
plugin "exec" {}
meta { "connect.log_level" = "info", rack = "${not.resolved}" }
`

const agentJSON = `{
  "data_dir": "/var/lib/x", "log_level": "debug", "ratio": 0.5, "reserve": 1048576,
  "ports": {"http": 4646},
  "server": [{"enabled": true, "grace": "10s", "retry_join": ["a", "b"]}],
  "host_volume": {"data": {"path": "/srv"}, "more": {"path": "/opt"}},
  "plugin": [{"raw_exec": {"config": {"enabled": true, "nested": [{"deep": [1, "x"]}]}}}, {"exec": {}}],
  "meta": {"connect.log_level": "info", "rack": "${not.resolved}"}
}`

// Given one configuration in HCL and in JSON, when it is decoded by its tags, then both give the same struct.
func TestFilesOfPlainValuesInBothForms(t *testing.T) {
	yes := true
	want := agentConfig{
		DataDir: "/var/lib/x",
		Ports:   &ports{HTTP: 4646},
		Ratio:   0.5,
		Reserve: 1 << 20,
		Level:   5,
		Server:  server{Enabled: &yes, Grace: 10 * time.Second, Retry: []string{"a", "b"}},
		Volumes: map[string]*hostVolume{"data": {Name: "data", Path: "/srv"}, "more": {Name: "more", Path: "/opt"}},
		Plugins: []plugin{{
			Name:   "raw_exec",
			Config: map[string]any{"enabled": true, "nested": []any{map[string]any{"deep": []any{1, "x"}}}},
		}, {Name: "exec"}},
		Meta: map[string]string{"connect.log_level": "info", "rack": "${not.resolved}"},
	}
	for path, src := range map[string]string{"a.hcl": agentHCL, "a.json": agentJSON} {
		var got agentConfig
		if err := decode(path, []byte(src), &got); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", path, diff)
		}
	}
}

// Given configurations with one mistake each, when they are decoded, then the error begins with file, line and column.
func TestMistakesInFilesOfPlainValues(t *testing.T) {
	cases := []wrong{
		{"unknown", "data_dri = \"x\"", `a.hcl:1:1: the file has no attribute "data_dri"; did you mean "data_dir"?`},
		{"reference", "data_dir = local.x",
			`a.hcl:1:12: local.x is a reference; this file takes plain values only, put texts in quotes`},
		{"word", "data_dir = x", `a.hcl:1:12: x is a reference`},
		{"function", "data_dir = file(\"x\")", `a.hcl:1:12: function calls not allowed`},
		{"range", "ports {\n  http = 70000\n}",
			`a.hcl:2:10: http the number 70000 is out of range: not negative, 16 bits`},
		{"block twice", "server {\n}\nserver {\n}",
			`a.hcl:3:1: the file has the block "server" twice, first on line 1`},
		{"label", "host_volume {\n}", `a.hcl:1:1: the block host_volume needs a label`},
		{"dynamic", "dynamic \"plugin\" {\n}", `a.hcl:1:1: the file has no block "dynamic"`},
		{"JSON", "{\"ports\": {\"http\": \"many\"}}", `a.hcl:1:20: http must be a whole number, not the text "many"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := decode("a.hcl", []byte(c.src), &agentConfig{})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// decode reads a file of plain values.
func decode(path string, src []byte, into any) error {
	r := hclfile.NewReport()
	hclfile.DecodeInto(r, path, src, into, nil)
	return r.Err()
}
