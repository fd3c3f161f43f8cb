package agent

import (
	"io"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// Given files with a value that cannot be, when an agent reads them, then it says where the value stands: in the last
// file that sets it. What a flag says, or nobody, has no place.
func TestAWrongValueIsNamedWithItsPlace(t *testing.T) {
	const halves = "server { enabled = true }\nclient { enabled = true }\n"
	client := func(line string) string {
		return "data_dir = \"/x\"\nserver { enabled = true }\nclient {\n  enabled = true\n  " + line + "\n}\n"
	}
	for name, c := range map[string]struct {
		first, second string
		args          []string
		want          string // what the message begins with, after the directory of the files
	}{
		"a level": {first: base + "log_level = \"loud\"\n", want: "a.hcl:5:1: configure log_level loud: "},
		"an address": {first: base + "bind_addr = \"0.0.0.0\"\n",
			want: "a.hcl:5:1: configure bind_addr 0.0.0.0: "},
		"a port": {first: base + "ports {\n  http = 70000\n}\n", want: "a.hcl:6:3: configure ports http: "},
		"a setting of a block": {first: client(`max_kill_timeout = "1ms"`),
			want: "a.hcl:5:3: configure client max_kill_timeout: "},
		"a block within": {first: client("reserved {\n cpu = -1\n}"),
			want: "a.hcl:5:3: configure client reserved: "},
		"a setting within": {first: client(`ephemeral_disk { enforce = "x" }`),
			want: "a.hcl:5:20: configure client "},
		"ports kept back": {first: client("reserved {\n reserved_ports = \"x\"\n}"),
			want: "a.hcl:6:2: configure "},
		"a block with a name": {first: client(`host_volume "m" { path = "srv" }`),
			want: "a.hcl:5:3: configure host_volume "},
		"a driver's option": {first: base + "plugin \"exec\" {\n  config {\n    default_user = \"\"\n  }\n}\n",
			want: "a.hcl:7:5: "},
		"a driver": {first: base + "plugin \"podman\" { }\n", want: "a.hcl:5:1: "},
		"the API": {first: base + "api {\n  socket = \"x\"\n}\n",
			want: "a.hcl:6:3: configure api socket x: "},
		"a bound": {first: base + "limits {\n  http_max_conns_per_client = -1\n}\n",
			want: "a.hcl:6:3: "},
		"the root": {first: "data_dir = \"/\"\n" + halves,
			want: "a.hcl:1:1: configure data_dir /: "},
		"the later file": {first: base + "log_level = \"loud\"\n", second: "\nlog_level = \"soft\"\n",
			want: "b.hcl:2:1: "},
		"a file of JSON": {first: base, second: `{"log_level": "loud"}`,
			want: "b.hcl:1:2: configure log_level loud: "},
		"a flag beside a file": {first: base + "log_level = \"info\"\n", args: []string{"-log-level", "loud"},
			want: "configure log_level loud: "},
		"what nobody has set": {first: halves, second: "data_dir = \"\"\n", args: []string{"-bind", "0.0.0.0"},
			want: "configure bind_addr 0.0.0.0: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{"-config", write(t, dir, "a.hcl", c.first)}
			if c.second != "" {
				args = append(args, "-config", write(t, dir, "b.hcl", c.second))
			}
			_, err := Parse(append(args, c.args...), io.Discard)
			if !fault.Has(err, fault.Invalid) {
				t.Fatalf("%v", err)
			}
			if got := strings.ReplaceAll(err.Error(), dir+"/", ""); !strings.HasPrefix(got, c.want) {
				t.Errorf("it says %q, want it to begin with %q", got, c.want)
			}
		})
	}
}

// Given a file with several values that cannot be, when an agent reads it, then one answer has all of them, each with
// its place.
func TestAllWrongValuesAreNamedAtOnce(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "a.hcl", "data_dir = \"/\"\nlog_level = \"loud\"\nports {\n  http = 70000\n}\n"+
		"server {\n  enabled = true\n  job_gc_interval = \"1ms\"\n  eval_gc_threshold = \"1ms\"\n}\n"+
		"client {\n  enabled = true\n  max_pids = -1\n  max_memory_max = 1\n"+
		"  host_volume \"m\" {\n    path = \"srv\"\n"+
		"  }\n}\n")
	_, err := Parse([]string{"-config", file}, io.Discard)
	if !fault.Has(err, fault.Invalid) {
		t.Fatalf("%v", err)
	}
	got := strings.ReplaceAll(err.Error(), dir+"/", "")
	for _, want := range []string{"a.hcl:1:1: configure data_dir /", "a.hcl:2:1: configure log_level",
		"a.hcl:4:3: configure ports http", "a.hcl:8:3: configure server job_gc_interval",
		"a.hcl:9:3: configure server eval_gc_threshold", "a.hcl:13:3: configure client max_pids",
		"a.hcl:14:3: configure client max_memory_max", "a.hcl:15:3: configure host_volume"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, got)
		}
	}
}
