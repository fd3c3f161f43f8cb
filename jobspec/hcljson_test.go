package jobspec_test

import (
	"strings"
	"testing"

	"berth/jobspec"

	"github.com/google/go-cmp/cmp"
)

const native = `
variable "n" {
  type    = number
  default = 2
}
locals {
  shell = "/bin/\"x${var.n}"
}
job "j" {
  group "g" {
    count = var.n
    network {
      port "db" {}
      port "http" {
        static = 80
      }
    }
    task "t" {
      driver = "raw_exec"
      env = { NODE = "${node.unique.name}" }
      config {
        command = local.shell
        args    = ["a\n${NOMAD_PORT_http}", "${NOMAD_X == "a" ? 1 : 2}"]
      }
      template {
        data        = "x\ty"
        destination = "local/x"
      }
    }
  }
}`

const inJSON = `{
  "variable": {"n": {"type": "number", "default": 2}},
  "locals": {"shell": "/bin/\"x${var.n}"},
  "job": {"j": {"group": {"g": {
    "count": "${var.n}",
    "network": {"port": {"db": {}, "http": {"static": 80}}},
    "task": {"t": {
      "driver": "raw_exec",
      "env": {"NODE": "${node.unique.name}"},
      "config": {
        "command": "${local.shell}",
        "args": ["a\n${NOMAD_PORT_http}", "${NOMAD_X == \"a\" ? 1 : 2}"]
      },
      "template": [{"data": "x\ty", "destination": "local/x"}]
    }}
  }}}}
}`

// Given a job file in HCL's JSON syntax, when it is parsed, then the job is that of the file in HCL.
func TestAJobFileInHCLsJSONSyntaxIsTheSameJob(t *testing.T) {
	want, err := jobspec.Parse(jobspec.ParseConfig{Path: "j.hcl", Source: []byte(native), Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := jobspec.Parse(jobspec.ParseConfig{Path: "j.json", Source: []byte(inJSON), Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
		t.Error(diff)
	}
	const args = "a\n${NOMAD_PORT_http} ${NOMAD_X == \"a\" ? 1 : 2}"
	list := got.TaskGroups[0].Tasks[0].Config["args"].([]any)
	if text := list[0].(string) + " " + list[1].(string); text != args {
		t.Errorf("what only a node knows became %q", text)
	}
}

// Given mistakes in HCL's JSON syntax, when it is parsed, then they are named with their place.
func TestMistakesInHCLsJSONSyntaxAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"attribute": {`"driver"`, `"drivr"`, `j.json:8:7: task "t" has no attribute "drivr"; did you mean "driver"?`},
		"variable":  {`"${var.n}",`, `"${var.m}",`, `j.json:5:17: the file declares no variable "m"`},
		"moved":     {`x${var.n}`, `x${var.m}`, `j.json:3:24:1:10: the file declares no variable "m"`},
		"template":  {`${local.shell}`, `${local.shell`, `j.json:11:21: unclosed`},
		"nesting": {`"${local.shell}"`, `"${` + strings.Repeat("(", 5000) + `1` + strings.Repeat(")", 5000) + `}"`,
			`j.json:11:`},
		"mixed": {`${local.shell}`, `${var.n + attr.cpu.numcores}`,
			`j.json:11:31: attr.cpu.numcores is only known on the node`},
		"type": {`"number"`, `7`, `j.json:2:30: the type of a variable must be a text`},
	} {
		src := strings.Replace(inJSON, c.old, c.new, 1)
		_, err := jobspec.Parse(jobspec.ParseConfig{Path: "j.json", Source: []byte(src), Strict: true})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// Given what drivers are configured with, when it is parsed, then it has the form that they know from other parsers of
// these files: maps are lists of one, and a block named dynamic is the driver's own.
func TestADriversConfigurationIsLeftToTheDriver(t *testing.T) {
	const src = `job "j" {
  group "g" {
    task "t" {
      driver = "x"
      config {
        labels = { a = { b = 1 } }
        mounts = [{ type = "bind", opts = { ro = true } }]
        dynamic "mount" {
          for_each = [1]
          content {
            target = "${mount.value}"
          }
        }
      }
    }
  }
}`
	job, err := jobspec.Parse(jobspec.ParseConfig{Path: "j.hcl", Source: []byte(src)})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"labels": []any{map[string]any{"a": []any{map[string]any{"b": 1}}}},
		"mounts": []any{map[string]any{"type": "bind", "opts": []any{map[string]any{"ro": true}}}},
		"dynamic": []any{map[string]any{"mount": []any{map[string]any{
			"for_each": []any{1},
			"content":  []any{map[string]any{"target": "${mount.value}"}},
		}}}},
	}
	if diff := cmp.Diff(want, job.TaskGroups[0].Tasks[0].Config); diff != "" {
		t.Error(diff)
	}
}
