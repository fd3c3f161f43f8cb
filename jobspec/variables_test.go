package jobspec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/jobspec"
)

const withVariables = `
variable "text" {
  default = "default"
}
variable "number" {
  type    = number
  default = 1
}
variable "list" {
  type    = list(string)
  default = []
}
variable "needed" {
  type = string
  validation {
    condition     = length(split("-", var.needed)) == 2
    error_message = "needed must be two words with a dash."
  }
}
job "j" {
  meta = {
    text   = var.text
    number = var.number + 1
    list   = join(",", var.list)
    needed = var.needed
  }
}
`

// Given a variable with a default, when values come from the environment, a file and the command line, then the later
// of these wins.
func TestVariablesTakeTheValueOfTheStrongestSource(t *testing.T) {
	cfg := jobspec.ParseConfig{
		Path:   "f.hcl",
		Source: []byte(withVariables),
		Strict: true,
		Env: []string{"NOMAD_VAR_text=from-env", "NOMAD_VAR_needed=a-b", "NOMAD_VAR_other=x", "HOME=/root",
			"NOMAD_VAR_number=5"},
		Vars: map[string]string{"list": `["x", "y"]`},
	}
	meta := func() map[string]string {
		t.Helper()
		job, err := jobspec.Parse(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return job.Meta
	}
	if m := meta(); m["text"] != "from-env" || m["number"] != "6" || m["list"] != "x,y" || m["needed"] != "a-b" {
		t.Errorf("from the environment: %v", m)
	}
	cfg.VarFiles = []jobspec.VarFile{{Path: "v.hcl", Source: []byte("text = \"from-file\"\nnumber = 7\n")}}
	if m := meta(); m["text"] != "from-file" || m["number"] != "8" {
		t.Errorf("from the file: %v", m)
	}
	cfg.Vars["text"], cfg.Vars["number"] = "from-var", "9"
	if m := meta(); m["text"] != "from-var" || m["number"] != "10" {
		t.Errorf("from the command line: %v", m)
	}
}

// Given a variable file on disk, when the author's machine may be read, then it is read; else it is refused.
func TestVariableFilesAreReadOnlyWhereFilesMayBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "v.hcl")
	if err := os.WriteFile(file, []byte("needed = \"a-b\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := jobspec.ParseConfig{
		Path:               "f.hcl",
		Source:             []byte(withVariables),
		VarFiles:           []jobspec.VarFile{{Path: file}},
		AllowFileFunctions: true,
	}
	job, err := jobspec.Parse(cfg)
	if err != nil || job.Meta["needed"] != "a-b" {
		t.Errorf("job %v, error %v", job, err)
	}
	cfg.AllowFileFunctions = false
	if _, err := jobspec.Parse(cfg); err == nil ||
		!strings.Contains(err.Error(), "variable files cannot be read here") {
		t.Errorf("error %v", err)
	}
}

// Given wrong values, when the job is parsed, then the error names the variable and where its value came from.
func TestWrongVariableValuesAreRefused(t *testing.T) {
	base := map[string]string{"needed": "a-b"}
	cases := []struct {
		name string
		vars map[string]string
		file string
		want string
	}{
		{"missing", map[string]string{}, "",
			`f.hcl:13:1: the variable "needed" has no value and no default; give one with -var needed=…`},
		{"validation", map[string]string{"needed": "abc"}, "",
			`f.hcl:15:3: the value of the variable "needed" (from -var needed) is refused: needed must be two words with a dash.`},
		{"type", map[string]string{"needed": "a-b", "number": "many"}, "",
			`-var number: the value of the variable "number" does not fit its type number`},
		{"expression", map[string]string{"needed": "a-b", "list": "[1,"}, "", `-var list:1:`},
		{"undeclared", map[string]string{"needed": "a-b", "nmber": "1"}, "",
			`-var nmber: the job file declares no variable "nmber"; did you mean "number"?`},
		{"undeclared in file", base, "txt = 1",
			`v.hcl:1:1: the job file declares no variable "txt"; did you mean "text"?`},
		{"reference in file", base, "text = var.number",
			`v.hcl:1:8: var.number is a reference; this file takes plain values only`},
		{"block in file", base, "text {\n}", `v.hcl:1:1: a variable file holds name = value pairs, no blocks`},
		{"type in file", base, "number = []",
			`v.hcl:1:10: the value of the variable "number" does not fit its type number`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := jobspec.ParseConfig{Path: "f.hcl", Source: []byte(withVariables), Strict: true, Vars: c.vars}
			if c.file != "" {
				cfg.VarFiles = []jobspec.VarFile{{Path: "v.hcl", Source: []byte(c.file)}}
			}
			_, err := jobspec.Parse(cfg)
			if err == nil || !strings.HasPrefix(problemText(err), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	lenient := jobspec.ParseConfig{
		Path:   "f.hcl",
		Source: []byte(withVariables),
		Vars:   map[string]string{"needed": "a-b", "nope": "1"},
	}
	if _, err := jobspec.Parse(lenient); err != nil {
		t.Errorf("an undeclared variable is refused although strictness is off: %v", err)
	}
}

// problemText is the first problem whose place is a file of the test.
func problemText(err error) string {
	p := jobspec.Problems(err)
	if len(p) == 0 {
		return err.Error()
	}
	return p[0].String()
}

// TestEveryVariableWithoutAValueIsNamed: given a file of variables of which several have no value and another has one
// that does not fit, when it is read, then each is named at once; and none whose value stands in a file that cannot be
// read.
func TestEveryVariableWithoutAValueIsNamed(t *testing.T) {
	source := []byte("variable \"a\" {}\nvariable \"b\" {}\nvariable \"n\" {\n  type = number\n}\njob \"j\" {}\n")
	_, err := jobspec.Parse(jobspec.ParseConfig{Path: "j.hcl", Source: source, Vars: map[string]string{"n": "many"}})
	if err == nil {
		t.Fatal("it is read")
	}
	for _, want := range []string{`the variable "a" has no value`, `the variable "b" has no value`,
		`the value of the variable "n" does not fit`} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("%q is not there once: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), `"n" has no value`) {
		t.Errorf("a value that does not fit is none: %v", err)
	}
	unread := []jobspec.VarFile{{Path: "v.hcl", Source: []byte("a = (")}}
	_, err = jobspec.Parse(jobspec.ParseConfig{Path: "j.hcl", Source: source, VarFiles: unread})
	if err == nil || strings.Contains(err.Error(), "has no value") {
		t.Errorf("of what a file that cannot be read says: %v", err)
	}
}
