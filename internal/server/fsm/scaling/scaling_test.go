package scaling_test

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/scaling"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// house is a cluster with job "web", whose group "g" has one to four allocations.
type house struct {
	*localstate.Cluster
	t *testing.T
}

func newHouse(t *testing.T, edit func(*job.Job)) house {
	h := house{localstate.New(t), t}
	j := &job.Job{
		Namespace: ids.DefaultNamespace,
		ID:        "web",
		Name:      "web",
		Type:      job.TypeService,
		Priority:  50,
		NodePool:  "default",
		TaskGroups: []*job.TaskGroup{{
			Name:    "g",
			Count:   2,
			Tasks:   []*job.Task{{Name: "t", Driver: "exec"}},
			Scaling: &job.ScalingPolicy{Type: job.ScalingHorizontal, Min: 1, Max: 4, Enabled: true},
		}},
	}
	if edit != nil {
		edit(j)
	}
	h.Must(t, &fsm.JobRegister{Job: j, Seed: ids.New()})
	return h
}

func (h house) job() *job.Job { return h.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web") }

func (h house) scale(count int64, edit ...func(*scaling.Scale)) error {
	cmd := &scaling.Scale{
		Namespace: ids.DefaultNamespace,
		Job:       "web",
		Group:     "g",
		Count:     &count,
		Message:   "more",
		Seed:      ids.New(),
	}
	for _, e := range edit {
		e(cmd)
	}
	_, _, err := h.Propose(h.t.Context(), cmd)
	return err
}

func (h house) events() []*job.ScalingEvent {
	if s := h.Store.Snapshot().Scalings(nil, ids.DefaultNamespace, "web"); s != nil {
		return s.Groups["g"]
	}
	return nil
}

// TestAScalingIsANewVersionThatIsRemembered: the count is another one, the version is the next, the scheduler is asked,
// and it is remembered from what to what.
func TestAScalingIsANewVersionThatIsRemembered(t *testing.T) {
	h := newHouse(t, nil)
	if err := h.scale(3); err != nil {
		t.Fatal(err)
	}
	j, events := h.job(), h.events()
	if j.Version != 1 || j.TaskGroups[0].Count != 3 {
		t.Errorf("version %d with count %d", j.Version, j.TaskGroups[0].Count)
	}
	if old := h.Store.Snapshot().JobVersion(nil, j.Namespace, j.ID, j.CreateIndex, 0); old.TaskGroups[0].Count != 2 {
		t.Errorf("the version before has count %d", old.TaskGroups[0].Count)
	}
	if len(events) != 1 || *events[0].Count != 3 || events[0].PreviousCount != 2 || events[0].Message != "more" {
		t.Fatalf("events: %+v", events)
	}
	if e := h.Store.Snapshot().Eval(nil, events[0].Eval); e == nil || e.TriggeredBy != eval.TriggerScaling {
		t.Errorf("evaluation: %+v", e)
	}
}

// TestWhatMayNotBeScaledIsRefusedAndNothingIsRemembered names each reason.
func TestWhatMayNotBeScaledIsRefusedAndNothingIsRemembered(t *testing.T) {
	for want, c := range map[string]struct {
		job   func(*job.Job)
		count int64
		edit  func(*scaling.Scale)
		state func(*state.Tx)
	}{
		"group count was greater than scaling policy maximum: 5 > 4": {count: 5},
		"group count was less than scaling policy minimum: 0 < 1":    {count: 0},
		"must be between 0 and":        {count: -1},
		`it has no group "x"`:          {count: 3, edit: func(c *scaling.Scale) { c.Group = "x" }},
		"job not found":                {count: 3, edit: func(c *scaling.Scale) { c.Job = "x" }},
		"conflicting job modify index": {count: 3, edit: func(c *scaling.Scale) { c.ModifyIndex = 1 << 40 }},
		"it is stopped":                {count: 3, job: func(j *job.Job) { j.Stop = true }},
		"runs on every node that fits": {count: 3, job: func(j *job.Job) { j.Type = job.TypeSystem }},
		"job scaling blocked due to active deployment": {count: 3, state: func(tx *state.Tx) {
			tx.PutDeployment(&deployment.Deployment{
				ID:        "d",
				Namespace: ids.DefaultNamespace,
				Job:       "web",
				Status:    deployment.Paused,
			})
		}},
	} {
		h := newHouse(t, c.job)
		if c.state != nil {
			stamp := state.Stamp{Index: h.Store.Snapshot().Index() + 1}
			if err := h.Store.Write(stamp, func(tx *state.Tx) error { c.state(tx); return nil }); err != nil {
				t.Fatal(err)
			}
			h.Skip(1)
		}
		edit := c.edit
		if edit == nil {
			edit = func(*scaling.Scale) {}
		}
		if err := h.scale(c.count, edit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if n := len(h.events()); n > 0 || h.job().Version != 0 {
			t.Errorf("%s: %d events, version %d", want, n, h.job().Version)
		}
	}
}

// TestWhatIsSaidWithoutACountIsRemembered: an autoscaler that cannot tell a count says why, also while a deployment is
// under way, and nothing else happens.
func TestWhatIsSaidWithoutACountIsRemembered(t *testing.T) {
	h := newHouse(t, nil)
	err := h.scale(0, func(c *scaling.Scale) {
		c.Count, c.Error = nil, true
		c.Message, c.Meta = "no metrics", map[string]any{"source": "prometheus"}
	})
	if err != nil {
		t.Fatal(err)
	}
	events := h.events()
	if len(events) != 1 || events[0].Count != nil || !events[0].Error || events[0].Meta["source"] != "prometheus" ||
		events[0].PreviousCount != 2 || events[0].Eval != "" {
		t.Errorf("events: %+v", events)
	}
	if v := h.job().Version; v != 0 {
		t.Errorf("it made version %d", v)
	}
}

// TestOfManyScalingsTheLastAreKept, and none of a job that is forgotten.
func TestOfManyScalingsTheLastAreKept(t *testing.T) {
	h := newHouse(t, nil)
	for i := range 30 {
		if err := h.scale(1 + int64(i%4)); err != nil {
			t.Fatal(err)
		}
	}
	events := h.events()
	if len(events) != job.MaxScalingEvents || *events[0].Count != 2 || events[0].PreviousCount != 1 {
		t.Errorf("%d events, the newest from %d to %d", len(events), events[0].PreviousCount, *events[0].Count)
	}
	h.Must(t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: "web", Purge: true, Seed: ids.New()})
	if len(h.events()) > 0 {
		t.Error("a job that is forgotten has events")
	}
}
