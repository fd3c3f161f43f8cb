package jobspec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/jobspec"
)

const manyVariables = `
variables {
  map_form = 1
}
variable "bare" {}
variable "line" { default = "d" }
variable "typed" {
  type = object({ a = string, b = optional(number, 7) })
}
variable "dyn" { type = string } # kept
variable "words" {
  type    = set(string)
  default = ["x"]
}
variable "left" {
  default = lower("L")
}
locals { two = "${var.bare}-${var.line}" }
job "j" {
  meta = {
    map   = var.map_form + 1
    two   = local.two
    typed = "${var.typed.a}${var.typed.b}"
    dyn   = var.dyn
    words = join(",", var.words)
  }
}
`

// Given a source and values for its variables from the environment, a file and the command line, when the source is
// written with them as defaults, then it makes the same job without any value, and what had none is as it was.
func TestASourceWithItsValuesMakesTheSameJob(t *testing.T) {
	cfg := jobspec.ParseConfig{
		Path:   "f.hcl",
		Source: []byte(manyVariables),
		Vars:   map[string]string{"bare": `a "b" ${c} %{d}`, "dyn": "line\n\ttwo", "map_form": "41", "other": "x"},
		VarFiles: []jobspec.VarFile{
			{Path: "1.hcl", Source: []byte("typed = { a = \"z\" }\nline = \"lost\"")},
			{Path: "2.hcl", Source: []byte("line = \"kept\"\nbare = \"lost\"\n")},
		},
		Env: []string{`NOMAD_VAR_words=["b", "a"]`, "NOMAD_VAR_line=lost", "NOMAD_VAR_none=x"},
	}
	want, err := jobspec.Parse(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// what a submission keeps: the single values, and a file with all others
	file, err := jobspec.Values(cfg)
	if err != nil {
		t.Fatal(err)
	}
	kept := cfg
	kept.Env = nil
	kept.VarFiles = []jobspec.VarFile{{Path: "kept", Source: []byte(file)}}
	for name, c := range map[string]jobspec.ParseConfig{"as given": cfg, "as kept": kept} {
		source, names, err := jobspec.WithValues(c)
		if err != nil {
			t.Fatalf("%s: %s", name, err)
		}
		if d := cmp.Diff([]string{"map_form", "bare", "line", "typed", "dyn", "words"}, names); d != "" {
			t.Errorf("%s: the names: %s", name, d)
		}
		got, err := jobspec.Parse(jobspec.ParseConfig{Path: "f.hcl", Source: source, Strict: true})
		if err != nil {
			t.Fatalf("%s: %s\n%s", name, err, source)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: another job: %s\n%s", name, d, source)
		}
		for _, part := range []string{`default = lower("L")`, "# kept"} {
			if !strings.Contains(string(source), part) {
				t.Errorf("%s: %q is lost:\n%s", name, part, source)
			}
		}
	}
}

// Given a source without values, when it is written with them, then not a byte differs; given one in JSON with values,
// then it is refused.
func TestASourceIsRewrittenOnlyForValues(t *testing.T) {
	odd := []byte("job   \"j\" { }")
	got, _, err := jobspec.WithValues(jobspec.ParseConfig{Path: "f.hcl", Source: odd})
	if err != nil || string(got) != string(odd) {
		t.Errorf("%q, %v", got, err)
	}
	json := []byte(`{"variable": {"x": {}}, "job": {"j": {"meta": {"x": "${var.x}"}}}}`)
	cfg := jobspec.ParseConfig{Path: "f.json", Source: json, Vars: map[string]string{"x": "1"}}
	if _, _, err := jobspec.WithValues(cfg); err == nil {
		t.Error("a source in JSON was rewritten")
	}
}
