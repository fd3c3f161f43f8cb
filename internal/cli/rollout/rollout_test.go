package rollout_test

import (
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/cli/rollout"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// job is version 2 of a job with one group of two.
func job(edit ...func(*api.Job)) *api.Job {
	j := &api.Job{
		ID:      ptr("web"),
		Type:    ptr(api.JobTypeService),
		Version: ptr(uint64(2)),
		TaskGroups: []*api.TaskGroup{{Name: "g", Count: ptr(2),
			Update: &api.UpdateStrategy{HealthCheck: ptr("task_states"), MinHealthyTime: ptr(10 * time.Second)}}},
	}
	for _, e := range edit {
		e(j)
	}
	return j
}

func batch(j *api.Job)  { j.Type, j.TaskGroups[0].Update = ptr(api.JobTypeBatch), nil }
func system(j *api.Job) { j.Type, j.TaskGroups[0].Count = ptr(api.JobTypeSystem), ptr(1) }
func manual(j *api.Job) { j.TaskGroups[0].Update.HealthCheck = ptr("manual") }
func none(j *api.Job)   { j.TaskGroups[0].Count = ptr(0) }

// alloc is one of the present version that runs.
func alloc(id string, edit ...func(*api.AllocationListStub)) *api.AllocationListStub {
	a := &api.AllocationListStub{
		ID:            id,
		Name:          id,
		JobID:         "web",
		TaskGroup:     "g",
		JobVersion:    2,
		JobType:       "service",
		DesiredStatus: "run",
		ClientStatus:  "running",
		Standing:      &api.AllocStanding{Phase: "running"},
	}
	for _, e := range edit {
		e(a)
	}
	return a
}

type edit = func(*api.AllocationListStub)

func well(a *api.AllocationListStub) {
	a.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: ptr(true)}
}
func old(a *api.AllocationListStub)     { a.JobVersion = 1 }
func stop(a *api.AllocationListStub)    { a.DesiredStatus = "stop" }
func ofBatch(a *api.AllocationListStub) { a.JobType = "batch" }

func client(status string) edit {
	return func(a *api.AllocationListStub) { a.ClientStatus, a.Standing.Phase = status, status }
}

func phase(p string) edit { return func(a *api.AllocationListStub) { a.Standing.Phase = p } }

func bad(why string) edit {
	return func(a *api.AllocationListStub) {
		a.Standing.Task, a.Standing.Trouble = "t", why
		a.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: ptr(false), Reason: why}
	}
}

func failed(a *api.AllocationListStub) {
	client("failed")(a)
	a.Standing.Task, a.Standing.Trouble = "t", `task "t" exited with code 3`
	if a.JobType != "batch" {
		bad(`task "t" exited with code 3`)(a)
	}
}

func follow(id string) edit { return func(a *api.AllocationListStub) { a.FollowupEvalID = id } }

// The evaluations of the stories.
var (
	complete = &api.Evaluation{ID: "done", Status: "complete"}
	pending  = &api.Evaluation{ID: "now", Status: "pending", TriggeredBy: "rolling-update"}
	retry    = &api.Evaluation{
		ID:          "later",
		Status:      "pending",
		TriggeredBy: "alloc-failure",
		WaitUntil:   ptr(noon.Add(30 * time.Second)),
	}
	putOff = &api.Evaluation{
		ID:          "put off",
		Status:      "pending",
		TriggeredBy: "max-plan-attempts",
		WaitUntil:   ptr(noon.Add(2 * time.Second)),
	}
	waiting = &api.Evaluation{ID: "waits", Status: "blocked"}
	nowhere = &api.Evaluation{
		ID:     "nowhere",
		Status: "blocked",
		FailedTGAllocs: map[string]*api.AllocationMetric{"g": {
			ConstraintFiltered: map[string]int{api.FilteredStartRefused: 1},
		}},
	}
	unplaced = &api.Evaluation{ID: "full", Status: "blocked", FailedTGAllocs: map[string]*api.AllocationMetric{"g": {}}}
)

func TestTheOutcomeIsWhatIsTrueNow(t *testing.T) {
	list := func(a ...*api.AllocationListStub) []*api.AllocationListStub { return a }
	evals := func(e ...*api.Evaluation) []*api.Evaluation { return append(e, complete) }
	for name, c := range map[string]struct {
		job    *api.Job
		allocs []*api.AllocationListStub
		evals  []*api.Evaluation
		want   rollout.Outcome
		says   string
	}{
		"both are healthy": {job(), list(alloc("a", well), alloc("b", well)), evals(),
			rollout.Done, `Job "web" runs: 2 allocations, healthy`},
		"one is not decided": {job(), list(alloc("a", well), alloc("b")), evals(), rollout.Going,
			""},
		"the first of two of an update": {job(), list(alloc("a", well), alloc("b", old, well)), evals(),
			rollout.Going, ""},
		"the one to be replaced is not well": {job(), list(alloc("a"), alloc("b", old, bad("x"))), evals(),
			rollout.Going, ""},
		"and its successor failed": {job(), list(alloc("b", old, bad("x")), alloc("z", failed)), evals(),
			rollout.Failed, `update stopped: allocation "z"`},
		"the scheduler has not spoken": {job(), list(alloc("a", well), alloc("b", well)), evals(pending),
			rollout.Going, ""},
		"it was put off": {job(), list(alloc("a", well)), evals(putOff), rollout.Going, ""},
		"the one before has not ended": {job(),
			list(alloc("a", well), alloc("b", well), alloc("c", old, stop, phase("stopping"))), evals(), rollout.Going,
			""},
		"the one before has": {job(),
			list(alloc("a", well), alloc("b", well), alloc("c", old, stop, client("complete"))), evals(), rollout.Done,
			"2 allocations, healthy"},
		"a successor waits for an end": {job(), list(alloc("a", well)), evals(waiting), rollout.Going, ""},
		"a replacement is on its way": {job(), list(alloc("a", failed), alloc("b", well)), evals(pending),
			rollout.Going, ""},
		"a replacement comes later": {job(), list(alloc("a", failed, follow("later")), alloc("b", well)),
			evals(retry), rollout.Failed, `allocation "a": task "t" exited with code 3; it is placed anew in 30s, at `},
		"no replacement comes": {job(), list(alloc("a", failed), alloc("b", well)), evals(),
			rollout.Failed, `job "web" failed: allocation "a": task "t" exited with code 3; there is no further try ("berth job eval -force-reschedule web" has it placed anew)`},
		"both failed": {job(), list(alloc("a", failed), alloc("b", failed)), evals(),
			rollout.Failed, `-force-reschedule web" has it placed anew); 1 more failed`},
		"the update stopped": {job(), list(alloc("a", failed), alloc("b", old, well)), evals(),
			rollout.Failed,
			`job "web": update stopped: allocation "a" is not healthy: task "t" exited with code 3; there is no further try ("berth job eval -force-reschedule web" has it placed anew); 1 allocation goes on with the version before`},
		"it runs and is not healthy": {job(), list(alloc("a", bad("too late")), alloc("b", well)), evals(),
			rollout.Failed, `allocation "a": too late; it still runs ("berth alloc stop a" has it placed anew)`},
		"a crash that is not decided": {job(), list(alloc("a", phase("restarting")), alloc("b", well)),
			evals(), rollout.Going, ""},
		"no place": {job(), list(alloc("a", well)), evals(unplaced), rollout.Unplaced,
			""},
		"failed, and no place for another": {job(), list(alloc("a", failed), alloc("b", well)), evals(unplaced),
			rollout.Failed, "its replacement waits for a place"},
		"failed, and no node starts another": {job(), list(alloc("a", failed), alloc("b", well)), evals(nowhere),
			rollout.Failed, "its replacement waits for another node or another version of the job"},
		"one is missing for no reason": {job(), list(alloc("a", well)), evals(), rollout.Short,
			`job "web" lacks 1 of 2 allocations`},
		"nothing is wanted": {job(none), nil, evals(), rollout.Done,
			`Job "web" has nothing to run`},
		"nothing is wanted, and something goes": {job(none), list(alloc("a", stop, phase("stopping"))), evals(),
			rollout.Going, ""},
		"a group that is gone": {job(none),
			list(alloc("a", stop, phase("stopping"), func(a *api.AllocationListStub) { a.TaskGroup = "other" })),
			evals(), rollout.Going, ""},
		"a system job on three nodes": {job(system),
			list(alloc("a", well), alloc("b", well), alloc("c", well)), evals(), rollout.Done,
			"3 allocations, healthy"},
		"a system job on no node": {job(system), nil, evals(), rollout.Done, "nothing to run"},
		"health is a person's to say": {job(manual), list(alloc("a"), alloc("b")), evals(), rollout.Done,
			`2 allocations; that they are healthy is for a person to say`},
		"and one does not run yet": {job(manual), list(alloc("a"), alloc("b", client("pending"))),
			evals(), rollout.Going, ""},
		"and the update waits for a person": {job(manual), list(alloc("a"), alloc("b", old)), evals(),
			rollout.Failed, `update stopped: health_check is "manual"`},
		"a batch job runs": {job(batch),
			list(alloc("a", ofBatch), alloc("b", ofBatch, client("complete"))), evals(), rollout.Going, ""},
		"a batch job has completed": {job(batch),
			list(alloc("a", ofBatch, client("complete")), alloc("b", ofBatch, client("complete"))), evals(),
			rollout.Done, `Job "web" has completed: 2 allocations`},
		"completed before, and unchanged": {job(batch),
			list(alloc("a", ofBatch, old, client("complete")), alloc("b", ofBatch, old, client("complete"))), evals(),
			rollout.Done, `has completed: 2 allocations`},
		"a batch job fails and the rest goes on": {job(batch), list(alloc("a", ofBatch, failed), alloc("b", ofBatch)),
			evals(), rollout.Going, ""},
		"a batch job failed": {job(batch),
			list(alloc("a", ofBatch, failed), alloc("b", ofBatch, client("complete"))), evals(), rollout.Failed,
			`task "t" exited with code 3; there is no further try ("berth job eval -force-reschedule web" has it placed anew)`},
		"a batch job failed, and no node starts another": {job(batch),
			list(alloc("a", ofBatch, failed), alloc("b", ofBatch, client("complete"))), evals(nowhere), rollout.Failed,
			"its replacement waits for another node or another version of the job"},
		"a batch job failed, and no place for another": {job(batch),
			list(alloc("a", ofBatch, failed), alloc("b", ofBatch, client("complete"))), evals(unplaced),
			rollout.Unplaced, ""},
		"a batch job tries again": {job(batch),
			list(alloc("a", ofBatch, failed, follow("later")), alloc("b", ofBatch, client("complete"))), evals(retry),
			rollout.Going, ""},
		"lost, and placed anew": {job(), list(alloc("a", stop, client("lost")), alloc("b", well)),
			evals(unplaced), rollout.Unplaced, ""},
	} {
		r := rollout.Assess(&api.JobRollout{Job: c.job, Allocations: c.allocs, Evaluations: c.evals}, noon)
		if r.Outcome != c.want {
			t.Errorf("%s: outcome %d, want %d", name, r.Outcome, c.want)
		}
		if c.says != "" && !strings.Contains(r.Sentence(), c.says) {
			t.Errorf("%s: %q, want %q", name, r.Sentence(), c.says)
		}
	}
}

func TestProgressOfAnUpdate(t *testing.T) {
	for _, tc := range []struct {
		want   string
		allocs []*api.AllocationListStub
	}{
		{"", []*api.AllocationListStub{alloc("a", well), alloc("b", well)}},
		{"update in progress: 0 of 2 allocations are healthy at version 2",
			[]*api.AllocationListStub{alloc("a"), alloc("b", old, bad("x"))}},
		{"update in progress: 1 of 2 allocations are healthy at version 2",
			[]*api.AllocationListStub{alloc("a", well), alloc("b", old, well)}},
		{"update in progress: 2 of 2 allocations are healthy at version 2, 1 of the version before still to end",
			[]*api.AllocationListStub{alloc("a", well), alloc("b", well), alloc("c", old, stop, phase("releasing"))}},
		{`update stopped: allocation "a" is not healthy: x; it still runs ("berth alloc stop a" has it placed anew)`,
			[]*api.AllocationListStub{alloc("a", bad("x")), alloc("b", old, well)}},
	} {
		r := rollout.Assess(&api.JobRollout{Job: job(), Allocations: tc.allocs}, noon)
		if got := r.Progress(r.Groups[0]); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestWhatIsWaitedForIsSaid(t *testing.T) {
	started := func(a *api.AllocationListStub) {
		a.TaskStates = map[string]*api.TaskState{"t": {StartedAt: ptr(noon.Add(-3 * time.Second))}}
	}
	ahead := func(a *api.AllocationListStub) { // a node whose clock is an hour ahead
		a.TaskStates = map[string]*api.TaskState{"t": {StartedAt: ptr(noon.Add(time.Hour))}}
	}
	waits := func(text string) edit { return func(a *api.AllocationListStub) { a.Standing.Waits = text } }
	for want, a := range map[string]*api.AllocationListStub{
		"runs; it is healthy in 7s if its tasks run on":  alloc("a", started),
		"runs; it is healthy in 10s if its tasks run on": alloc("a", ahead),
		"":                         alloc("a", well),
		"waits: volume db is held": alloc("a", client("pending"), waits("volume db is held")),
		"is stopping: its tasks have until their kill timeouts": alloc("a", stop, phase("stopping")),
		"has ended and is releasing what it holds: busy":        alloc("a", stop, phase("releasing"), waits("busy")),
	} {
		r := rollout.Assess(&api.JobRollout{Job: job(), Allocations: []*api.AllocationListStub{a}}, noon)
		if got := r.Groups[0].Waiting(a, noon); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	checked := job()
	checked.TaskGroups[0].Update.HealthCheck = ptr("checks")
	checked.TaskGroups[0].Services = []*api.Service{{Checks: []*api.ServiceCheck{{}}}}
	r := rollout.Assess(&api.JobRollout{
		Job:         checked,
		Allocations: []*api.AllocationListStub{alloc("a", started)},
	}, noon)
	const want = "runs; it is healthy when its checks have passed for 10s"
	if got := r.Groups[0].Waiting(alloc("a", started), noon); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTroubleSaysWhatComesNext(t *testing.T) {
	restarts := func(at time.Duration, attempt, attempts int) edit {
		return func(a *api.AllocationListStub) {
			a.Standing.Phase = "restarting"
			a.Standing.Task = "t"
			a.Standing.Trouble = `task "t" exited with code 1`
			a.Standing.RestartAt = ptr(noon.Add(at))
			a.Standing.Attempt = attempt
			a.Standing.Attempts = attempts
		}
	}
	for want, a := range map[string]*api.AllocationListStub{
		`task "t" exited with code 1; it restarts in 12s (attempt 2 of 3)`: alloc("a", restarts(12*time.Second, 2, 3)),
		`task "t" exited with code 1; it restarts in 1s (attempt 9)`: alloc("a",
			restarts(time.Millisecond, 9, 0)),
		`task "t" exited with code 1; it restarts now (attempt 2 of 3)`: alloc("a", restarts(-time.Second, 2, 3)),
		`it is lost: gone`: alloc("a", client("lost"), func(a *api.AllocationListStub) {
			a.ClientDescription = "gone"
		}),
	} {
		r := rollout.Assess(&api.JobRollout{Job: job(), Allocations: []*api.AllocationListStub{a}}, noon)
		if len(r.Troubles) != 1 || !strings.HasPrefix(r.Troubles[0].Sentence(), want) {
			t.Errorf("%+v, want %q", r.Troubles, want)
		}
	}
	// What is past is no trouble: the task runs again, and is healthy or may become so.
	r := rollout.Assess(
		&api.JobRollout{
			Job: job(),
			Allocations: []*api.AllocationListStub{alloc("a", well, func(a *api.AllocationListStub) {
				a.Standing.Task, a.Standing.Trouble = "t", "long ago"
			})},
		}, noon)
	if len(r.Troubles) != 0 {
		t.Errorf("%+v", r.Troubles)
	}
}

// Given what has no place, then what would give it one is said as it is: capacity, where a node has too little; a node
// or a version to come, where those that there are refuse to start it; else a change of what is in the way.
func TestWhatGivesTheRestAPlace(t *testing.T) {
	full, refused := api.AllocationMetric{NodesExhausted: 1}, nowhere.FailedTGAllocs["g"]
	other := api.AllocationMetric{ConstraintFiltered: map[string]int{"${attr.kernel.name} = windows": 2}}
	some := api.AllocationMetric{ConstraintFiltered: map[string]int{api.FilteredStartRefused: 1}, NodesExhausted: 1}
	for _, c := range []struct {
		failed map[string]*api.AllocationMetric
		want   string
	}{
		{map[string]*api.AllocationMetric{"g": &full}, "as soon as there is capacity for it"},
		{map[string]*api.AllocationMetric{"g": refused},
			"when another node comes or the job changes: no node that is here starts it"},
		{map[string]*api.AllocationMetric{"g": refused, "h": refused},
			"when another node comes or the job changes: no node that is here starts it"},
		{map[string]*api.AllocationMetric{"g": refused, "h": &full}, "as soon as what is in its way has changed"},
		{map[string]*api.AllocationMetric{"g": &some}, "as soon as there is capacity for it"},
		{map[string]*api.AllocationMetric{"g": &other}, "as soon as what is in its way has changed"},
	} {
		if got := rollout.Remainder("e", c.failed); got != `Evaluation "e" will place the rest `+c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
	}
}

// Given a job whose allocations ended before a registration, or after it, when it is asked what came of that, then it
// is said that nothing was run, or nothing is.
func TestWhatHadEndedBeforeIsSaid(t *testing.T) {
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	since := func(a *api.AllocationListStub) {
		a.ModifyIndex = 10
		a.TaskStates = map[string]*api.TaskState{"t": {FinishedAt: &at}}
	}
	past := func(id string) *api.AllocationListStub { return alloc(id, ofBatch, client("complete"), since) }
	done := []*api.AllocationListStub{past("a"), past("b")}
	broken := []*api.AllocationListStub{alloc("a", failed, since), alloc("b", well)}
	for name, c := range map[string]struct {
		picture *api.JobRollout
		index   uint64
		want    string
	}{
		"completed before": {&api.JobRollout{Job: job(batch), Allocations: done}, 11,
			`Nothing was run: job "web" had completed before, at 2000-01-01T00:00:00Z ` +
				`("berth job run -again FILE" does)`},
		"completes now": {&api.JobRollout{Job: job(batch), Allocations: done}, 9, ""},
		"failed before": {&api.JobRollout{Job: job(), Allocations: broken}, 11,
			`Nothing was run: job "web" failed before, at 2000-01-01T00:00:00Z`},
		"fails now":      {&api.JobRollout{Job: job(), Allocations: broken}, 10, ""},
		"a service runs": {&api.JobRollout{Job: job(), Allocations: broken[1:]}, 11, ""},
	} {
		if got := rollout.Assess(c.picture, at).Past(c.index); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
