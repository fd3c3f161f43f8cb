package httpapi_test

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/cli"
)

const oddFile = `job %s {
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = %q
      }
    }
  }
}
`

// berth runs a command of the command line against the rig, and returns its exit code and what it writes.
func (r *rig) berth(args ...string) (code int, text string) {
	r.t.Helper()
	var out bytes.Buffer
	app := cli.New(cli.Options{
		Stdin:   strings.NewReader(""),
		Stdout:  &out,
		Stderr:  &out,
		Getenv:  func(name string) string { return map[string]string{"BERTH_ADDR": r.url}[name] },
		Version: "1",
		Dial:    (&net.Dialer{}).DialContext,
	})
	code = app.Run(r.t.Context(), args)
	return code, out.String()
}

// oddIDs are ids that jobs may have, and that an address, a shell, a pattern or a path would read as something else.
var oddIDs = []string{
	`back\slash/with\ntroublesome:characters?&%41+#字`,
	`per%2Fcent%00`,
	`quo"te'$(id)` + "`id`",
	`a=b&namespace=other;x`,
	`[br]{ace}*`,
	`..dots/...`,
	`-dash`,
	`ünïcode/…`,
}

// Given jobs with every odd id, and others whose ids begin as theirs do, when a person types the id in a command of the
// command line, whole or only its beginning, with the namespace, every namespace, or none, then the command is about
// that job.
func TestOddIDsOfJobsPassThroughTheCommandLine(t *testing.T) {
	r := newRig(t)
	for _, id := range oddIDs {
		r.oddJob(t, id)
	}
}

// says runs a command that ends so and says this.
func (r *rig) says(t *testing.T, want int, text string, args ...string) {
	t.Helper()
	code, said := r.berth(args...)
	if code != want || !strings.Contains(said, text) {
		t.Errorf("berth %q ended with %d, want %d and %q: %s", args, code, want, text, said)
	}
}

func (r *rig) oddJob(t *testing.T, id string) {
	t.Helper()
	file := func(id, command string) string {
		path := filepath.Join(t.TempDir(), "job.hcl")
		quoted := strings.ReplaceAll(strings.ReplaceAll(strconv.Quote(id), "%", "%%"), "${", "$${")
		quoted = strings.ReplaceAll(quoted, "%%", "%") // only %{ begins a template
		text := fmt.Sprintf(oddFile, quoted, command)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	longer := id + "/longer"
	r.says(t, 0, "", "job", "validate", file(id, "/bin/sleep"))
	r.says(t, 0, "", "job", "run", "-detach", file(id, "/bin/sleep"))
	r.says(t, 0, "", "job", "run", "-detach", file(longer, "/bin/true"))
	var allocs []*api.AllocationListStub
	r.untilRuns(id, &allocs)
	r.untilRuns(longer, nil)

	// -- ends the flags: an id may begin with a dash.
	for _, where := range [][]string{nil, {"-namespace", "default"}, {"-namespace", "*"}} {
		at := func(args ...string) []string { return slices.Concat(where, args) }
		r.says(t, 0, id+"\n", at("job", "status", "--", id)...)
		r.says(t, 0, longer+"\n", at("job", "status", "--", id+"/lon")...)
		r.says(t, 0, longer+"\n", at("status", "--", id+"/lon")...)
		r.says(t, 0, "", at("status", "--", id)...)
		r.says(t, 0, "/bin/sleep", at("job", "inspect", "--", id)...)
		r.says(t, 0, "Version", at("job", "history", "--", id)...)
		r.says(t, 0, allocs[0].ID[:8], at("job", "allocs", "--", id)...)
		r.says(t, 0, "", at("logs", "-job", "--", id)...)
		r.says(t, 0, "", at("alloc", "status", allocs[0].ID[:8])...)
	}
	r.says(t, 1, "/bin/true", "job", "plan", file(id, "/bin/true"))
	r.says(t, 0, "", "job", "eval", "-detach", "--", id)
	r.says(t, 0, "", "alloc", "stop", "-detach", allocs[0].ID[:8])
	r.says(t, 0, "", "job", "stop", "-detach", "-yes", "--", id)
	var j api.Job
	if r.get("/v1/job/"+pathOf(longer), &j); *j.Stop {
		t.Errorf("with %q the job %q was stopped", id, longer)
	}
	until(r, "/v1/job/"+pathOf(id), func(j *api.Job) bool { return *j.Stop })
	r.says(t, 0, "", "job", "stop", "-detach", "-yes", "-purge", "--", longer)
	r.says(t, 0, "", "job", "stop", "-detach", "-yes", "-purge", "--", id)
}

func pathOf(id string) string { return url.PathEscape(id) }

// untilRuns waits until an alloc of a job runs.
func (r *rig) untilRuns(id string, allocs *[]*api.AllocationListStub) {
	r.t.Helper()
	got := until(r, "/v1/job/"+pathOf(id)+"/allocations", func(l []*api.AllocationListStub) bool {
		return len(l) == 1 && l[0].ClientStatus == "running"
	})
	if allocs != nil {
		*allocs = got
	}
}
