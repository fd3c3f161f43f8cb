package jobrules_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/jobrules"
)

// launching is a batch job that a test makes one that launches others, in its canonical form.
func launching(edit func(*api.Job)) *api.Job {
	kind, id := "batch", "j"
	j := &api.Job{ID: &id, Type: &kind, TaskGroups: []*api.TaskGroup{{
		Name: "g",
		Tasks: []*api.Task{{
			Name:   "t",
			Driver: "exec",
			Config: map[string]any{"command": "/bin/true"},
		}},
	}}}
	edit(j)
	jobrules.Canonicalize(j, "global", ids.DefaultNamespace)
	return j
}

func pointer[T any](v T) *T { return &v }

func clock(edit func(*api.PeriodicConfig)) func(*api.Job) {
	return func(j *api.Job) {
		j.Periodic = &api.PeriodicConfig{Specs: []string{"0 4 * * *"}}
		edit(j.Periodic)
	}
}

func parameters(edit func(*api.ParameterizedJobConfig)) func(*api.Job) {
	return func(j *api.Job) {
		j.ParameterizedJob = &api.ParameterizedJobConfig{MetaRequired: []string{"in"}, MetaOptional: []string{"out"}}
		edit(j.ParameterizedJob)
	}
}

func payload(file string) func(*api.Job) {
	return func(j *api.Job) {
		j.ParameterizedJob = &api.ParameterizedJobConfig{}
		j.TaskGroups[0].Tasks[0].DispatchPayload = &api.DispatchPayload{File: file}
	}
}

// Each rule for jobs that launch others: what is taken, and what is refused with which words; nothing else is said of
// the job.
func TestRulesForJobsThatLaunchOthers(t *testing.T) {
	none := func(*api.PeriodicConfig) {}
	for name, c := range map[string]struct {
		edit func(*api.Job)
		says string // empty: it is taken
	}{
		"by the clock":     {clock(none), ""},
		"by the old form":  {clock(func(p *api.PeriodicConfig) { p.Specs, p.Spec = nil, pointer("@daily") }), ""},
		"with a zone":      {clock(func(p *api.PeriodicConfig) { p.TimeZone = pointer("Europe/Berlin") }), ""},
		"with no zone":     {clock(func(p *api.PeriodicConfig) { p.TimeZone = pointer("") }), ""},
		"with parameters":  {parameters(func(*api.ParameterizedJobConfig) {}), ""},
		"with a payload":   {payload("in/payload.json"), ""},
		"a dotted payload": {payload("a..b"), ""},
		"of sysbatch":      {func(j *api.Job) { clock(none)(j); *j.Type = "sysbatch" }, ""},
		"a service's clock": {func(j *api.Job) { clock(none)(j); *j.Type = "service" },
			"only batch and sysbatch jobs are launched"},
		"a system's clock": {func(j *api.Job) { clock(none)(j); *j.Type = "system" },
			"only batch and sysbatch jobs are launched"},
		"a service's params": {func(j *api.Job) { payload("x")(j); *j.Type = "service" },
			"only batch and sysbatch jobs are dispatched"},
		"both": {func(j *api.Job) {
			clock(none)(j)
			parameters(func(*api.ParameterizedJobConfig) {})(j)
		}, "can't be periodic and parameterized"},
		"another kind of times": {clock(func(p *api.PeriodicConfig) { p.SpecType = pointer("test") }),
			`of type "test"`},
		"two forms of times": {clock(func(p *api.PeriodicConfig) { p.Spec = pointer("@daily") }),
			"it has cron and crons"},
		"no times":             {clock(func(p *api.PeriodicConfig) { p.Specs = nil }), "periodic: "},
		"no time of the clock": {clock(func(p *api.PeriodicConfig) { p.Specs = []string{"at noon"} }), "periodic: "},
		"no zone of the world": {clock(func(p *api.PeriodicConfig) { p.TimeZone = pointer("Moon/Base") }), "Moon/Base"},
		"many times": {clock(func(p *api.PeriodicConfig) { p.Specs = slices.Repeat(p.Specs, 101) }),
			"it has 101 cron expressions, and may have 100"},
		"an unknown payload": {parameters(func(p *api.ParameterizedJobConfig) { p.Payload = "maybe" }),
			`payload "maybe" is not known`},
		"an empty key": {parameters(func(p *api.ParameterizedJobConfig) { p.MetaOptional = []string{""} }),
			"a key of meta is empty"},
		"a key of both": {parameters(func(p *api.ParameterizedJobConfig) { p.MetaOptional = p.MetaRequired }),
			`meta "in" is required and optional`},
		"no file":         {payload(""), "it names no file"},
		"a whole path":    {payload("/etc/passwd"), "must lie in the task's local directory"},
		"a path upwards":  {payload("a/../../x"), "must lie in the task's local directory"},
		"the directory":   {payload("./"), "must lie in the task's local directory"},
		"a file with NUL": {payload("a\x00b"), "contains NUL"},
		"a payload for nobody": {func(j *api.Job) { payload("x")(j); j.ParameterizedJob = nil },
			"only a job with a block parameterized"},
		"a payload that is forbidden": {func(j *api.Job) { payload("x")(j); j.ParameterizedJob.Payload = "forbidden" },
			"takes no payload"},
	} {
		err := errors.Join(jobrules.Validate(launching(c.edit))...)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s is refused: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want %q alone", name, err, c.says)
		}
	}
}

// What a job that launches others leaves out is filled in as the reference says; what servers write of children is
// taken from nobody; the old form of times is named with the new one.
func TestWhatAJobThatLaunchesOthersLeavesOut(t *testing.T) {
	j := launching(func(j *api.Job) {
		clock(func(p *api.PeriodicConfig) { p.Specs, p.Spec = nil, pointer("@hourly") })(j)
		j.ParentID, j.DispatchIdempotencyToken = pointer("other"), pointer("t")
		j.Dispatched, j.Payload = true, []byte("x")
	})
	if p := j.Periodic; !*p.Enabled || *p.SpecType != "cron" || *p.ProhibitOverlap || *p.TimeZone != "UTC" {
		t.Errorf("the times are %+v", p)
	}
	if j.ParentID != nil || j.Dispatched || j.Payload != nil || j.DispatchIdempotencyToken != nil {
		t.Error("who submits a job says what it was launched with")
	}
	if w := jobrules.Warnings(j); !slices.ContainsFunc(w, func(s string) bool {
		return strings.Contains(s, `write crons = ["@hourly"]`)
	}) {
		t.Errorf("the old form is not named: %q", w)
	}
	p := launching(parameters(func(*api.ParameterizedJobConfig) {})).ParameterizedJob
	if p.Payload != "optional" {
		t.Errorf("a payload is %q", p.Payload)
	}
}
