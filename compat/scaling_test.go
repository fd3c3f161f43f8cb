package compat

import (
	"fmt"

	"github.com/hashicorp/nomad/api"
)

// scaledJob is a service whose policies bound its count, and say how its task may be sized.
const scaledJob = `
job "scaled" {
  group "g" {
    count = 2
    scaling {
      min = 1
      max = 3
      policy {
        cooldown = "1m"
      }
    }
    update {
      min_healthy_time = "0s"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["infinity"]
      }
      scaling "mem" {
        max = 512
      }
    }
  }
}`

// scaled drives what an autoscaler and a person do with the counts and the versions of a job: policies, scalings with
// their events, bounds, tags, a way back by a tag's version, and restarts.
func scaled(a *agent) {
	_, _, err := a.Jobs().Register(parse(a, scaledJob), nil)
	a.ok(err)
	settled(a, 2)
	policies(a)

	three := 3
	done, _, err := a.Jobs().Scale("scaled", "g", &three, "busy", false, map[string]any{"load": "high"}, nil)
	a.ok(err)
	eval, _, err := a.Evaluations().Info(done.EvalID, nil)
	a.ok(err)
	if eval.TriggeredBy != "job-scaling" {
		a.t.Errorf("a scaling's evaluation is triggered by %q", eval.TriggeredBy)
	}
	settled(a, 3)
	nine := 9
	_, _, err = a.Jobs().Scale("scaled", "g", &nine, "", false, nil, nil)
	a.refused(err, "400 (scale job \"scaled\": group count was greater than scaling policy maximum: 9 > 3")
	_, _, err = a.Jobs().Scale("scaled", "g", nil, "no metrics", true, nil, nil)
	a.ok(err)
	status, _, err := a.Jobs().ScaleStatus("scaled", nil)
	a.ok(err)
	g := status.TaskGroups["g"]
	if g.Desired != 3 || g.Running != 3 || len(g.Events) != 2 || !g.Events[0].Error || *g.Events[1].Count != 3 ||
		g.Events[1].PreviousCount != 2 || g.Events[1].Meta["load"] != "high" || *g.Events[1].EvalID != done.EvalID {
		a.t.Errorf("the group stands at %+v", g)
	}
	tagged(a)
	restarted(a)
	_, _, err = a.Jobs().Deregister("scaled", true, nil)
	a.ok(err)
	left, _, err := a.Scaling().ListPolicies(nil)
	a.ok(err)
	if len(left) != 0 {
		a.t.Errorf("policies of a job that is gone: %+v", left)
	}
}

// settled waits until so many allocations run and the newest deployment is over.
func settled(a *agent, count int) {
	a.t.Helper()
	a.eventually(fmt.Sprintf("%d allocations to run", count), func() error {
		d, _, err := a.Jobs().LatestDeployment("scaled", nil)
		if err != nil || d == nil || d.Status != "successful" {
			return fmt.Errorf("the deployment is %+v: %v", d, err)
		}
		list, _, err := a.Jobs().Allocations("scaled", false, nil)
		runs := 0
		for _, s := range list {
			if s.ClientStatus == "running" && s.DesiredStatus == "run" {
				runs++
			}
		}
		if runs != count {
			return fmt.Errorf("%d run: %v", runs, err)
		}
		return err
	})
}

func policies(a *agent) {
	a.t.Helper()
	list, _, err := a.Scaling().ListPolicies(&api.QueryOptions{Params: map[string]string{"type": "horizontal"}})
	a.ok(err)
	all, _, err := a.Scaling().ListPolicies(nil)
	a.ok(err)
	if len(list) != 1 || len(all) != 2 {
		a.t.Fatalf("policies %+v, of all types %+v", list, all)
	}
	one, _, err := a.Scaling().GetPolicy(list[0].ID, nil)
	a.ok(err)
	if one.Target["Group"] != "g" || *one.Min != 1 || *one.Max != 3 || !*one.Enabled ||
		one.Policy["cooldown"] != "1m" {
		a.t.Errorf("the policy is %+v", one)
	}
	job, _, err := a.Jobs().Info("scaled", nil)
	a.ok(err)
	if s := job.TaskGroups[0].Scaling; s == nil || s.ID != one.ID {
		a.t.Errorf("the job's own policy is %+v", s)
	}
	_, _, err = a.Scaling().GetPolicy("00000000-0000-4000-8000-000000000000", nil)
	a.refused(err, "404 (policy not found)")
}

func tagged(a *agent) {
	a.t.Helper()
	_, err := a.Jobs().TagVersion("scaled", 0, "first", "as it began", nil)
	a.ok(err)
	v, _, err := a.Jobs().VersionByTag("scaled", "first", nil)
	a.ok(err)
	if *v.Version != 0 || v.VersionTag.Description != "as it began" {
		a.t.Errorf("what is tagged is version %d, %+v", *v.Version, v.VersionTag)
	}
	versions, diffs, _, err := a.Jobs().VersionsOpts("scaled", &api.VersionsOptions{Diffs: true, DiffTag: "first"}, nil)
	a.ok(err)
	if len(versions) != 2 || len(diffs) != 2 || diffs[0].Type != "Edited" || diffs[1].Type != "None" {
		a.t.Errorf("%d versions, differences %+v", len(versions), diffs)
	}
	_, err = a.Jobs().UntagVersion("scaled", "first", nil)
	a.ok(err)
	_, err = a.Jobs().UntagVersion("scaled", "first", nil)
	if err == nil {
		a.t.Error("a tag was taken away twice")
	}
}

// restarted does what the client's command for restarts does: in place, and by another allocation.
func restarted(a *agent) {
	a.t.Helper()
	list, _, err := a.Jobs().Allocations("scaled", false, nil)
	a.ok(err)
	alloc, _, err := a.Allocations().Info(list[0].ID, nil)
	a.ok(err)
	a.ok(a.Allocations().RestartAllTasks(alloc, nil))
	stop, err := a.Allocations().Stop(alloc, nil)
	a.ok(err)
	a.eventually("another allocation to take its place", func() error {
		now, _, err := a.Allocations().Info(alloc.ID, nil)
		if err != nil || now.NextAllocation == "" {
			return fmt.Errorf("evaluation %s: next is %q: %v", stop.EvalID, now.NextAllocation, err)
		}
		return nil
	})
	_, _, err = a.Jobs().EvaluateWithOpts("scaled", api.EvalOptions{ForceReschedule: true}, nil)
	a.ok(err)
	settled(a, 3)
}
