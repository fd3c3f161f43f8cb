package convert_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/httpapi/convert"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// TestAFailureIsShownWithThePoolOfItsJob: one that was stored before that was noted is of the pool that there always
// is.
func TestAFailureIsShownWithThePoolOfItsJob(t *testing.T) {
	shown := convert.Metrics(map[string]*alloc.Metric{"new": {NodePool: "gpu"}, "old": {}})
	if shown["new"].NodePool != "gpu" || shown["old"].NodePool != "default" {
		t.Errorf("the pools are %q and %q", shown["new"].NodePool, shown["old"].NodePool)
	}
}

func TestAnAllocCarriesItsHealthAndItsStanding(t *testing.T) {
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	j := &job.Job{
		ID: "web",
		TaskGroups: []*job.TaskGroup{{
			Name:          "g",
			RestartPolicy: &job.RestartPolicy{Attempts: 2, Mode: job.RestartFail},
			Tasks:         []*job.Task{{Name: "t"}},
		}},
	}
	a := &alloc.Alloc{
		ID:            "a",
		Job:           "web",
		TaskGroup:     "g",
		DesiredStatus: alloc.DesiredRun,
		ClientStatus:  alloc.ClientRunning,
		Health:        &alloc.Health{At: at, Index: 7, Reason: "it was not healthy within 5m0s"},
		TaskStates: map[string]*alloc.TaskState{"t": {State: alloc.TaskPending, Restarts: 1, Events: []*alloc.TaskEvent{
			{
				Type:     alloc.EventTerminated,
				ExitCode: 3,
			}, {
				Type:    alloc.EventRestarting,
				Time:    at.UnixNano(),
				Details: map[string]string{"start_delay": "15000000000"},
			}}}},
	}
	b := alloc.Bundle{Alloc: a, Job: j}
	stub, full := convert.AllocStub(b), convert.Alloc(b, nil)
	if d := stub.DeploymentStatus; d == nil || *d.Healthy || !d.Timestamp.Equal(at) || d.ModifyIndex != 7 ||
		d.Reason == "" {
		t.Errorf("health: %+v", d)
	}
	s := stub.Standing
	if s.Phase != "restarting" || s.Task != "t" || s.Trouble != `task "t" exited with code 3` ||
		!s.RestartAt.Equal(at.Add(15*time.Second)) || s.Attempt != 2 || s.Attempts != 3 {
		t.Errorf("standing: %+v", s)
	}
	for name, pair := range map[string][2]any{"health": {stub.DeploymentStatus, full.DeploymentStatus},
		"standing": {stub.Standing, full.Standing}} {
		x, _ := json.Marshal(pair[0]) // plain structs
		y, _ := json.Marshal(pair[1])
		if string(x) != string(y) {
			t.Errorf("%s in a list: %s; alone: %s", name, x, y)
		}
	}
	// Undecided health is no object, as clients know it; and without trouble nothing is said of any.
	a.Health, a.TaskStates["t"] = nil, &alloc.TaskState{State: alloc.TaskRunning}
	out, err := json.Marshal(convert.AllocStub(alloc.Bundle{Alloc: a}))
	if err != nil || !strings.Contains(string(out), `"DeploymentStatus":null`) ||
		!strings.Contains(string(out), `"Standing":{"Phase":"running"}`) {
		t.Errorf("%s %v", out, err)
	}
}

// TestAMoveIsShownAsItWasAskedFor: a request to stop an allocation shows as a migration, one to reschedule it as that.
func TestAMoveIsShownAsItWasAskedFor(t *testing.T) {
	for _, c := range []struct{ migrate, replace, showsMigrate, showsReschedule bool }{
		{false, false, false, false},
		{true, false, true, false},
		{true, true, false, true},
	} {
		a := &alloc.Alloc{ID: "a", Migrate: c.migrate, Replace: c.replace}
		b := alloc.Bundle{Alloc: a}
		for name, d := range map[string]api.DesiredTransition{"in a list": convert.AllocStub(b).DesiredTransition,
			"alone": convert.Alloc(b, nil).DesiredTransition} {
			if *d.Migrate != c.showsMigrate || *d.Reschedule != c.showsReschedule {
				t.Errorf("%+v %s: migrate %v, reschedule %v", c, name, *d.Migrate, *d.Reschedule)
			}
		}
	}
}
