package compat

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
)

// rolledJob is a service of two allocations whose health a person decides, with a canary before each update.
const rolledJob = `
job "rolled" {
  group "g" {
    count = 2
    update {
      canary       = 1
      health_check = "manual"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["infinity", var.version]
      }
      resources {
        memory = 16
      }
    }
  }
}
variable "version" {}`

// rolls registers a version of the job and gives its deployment.
func rolls(a *agent, version string) *api.Deployment {
	a.t.Helper()
	job, err := a.Jobs().ParseHCLOpts(&api.JobsParseRequest{
		JobHCL:    rolledJob,
		Variables: fmt.Sprintf("version = %q", version),
	})
	a.ok(err)
	reply, _, err := a.Jobs().Register(job, nil)
	a.ok(err)
	var d *api.Deployment
	a.eventually("a deployment of version "+version, func() (err error) {
		eval, _, err := a.Evaluations().Info(reply.EvalID, nil)
		if err != nil || eval.Status != "complete" {
			return fmt.Errorf("the evaluation is %+v: %v", eval, err)
		}
		d, _, err = a.Jobs().LatestDeployment("rolled", nil)
		if err == nil && (d == nil || d.JobSpecModifyIndex != reply.JobModifyIndex) {
			err = fmt.Errorf("it is %+v", d)
		}
		return err
	})
	return d
}

// decided says of all allocations of a deployment that run that they are healthy, until a group has so many.
func decided(a *agent, deployment string, healthy int) {
	a.t.Helper()
	a.eventually(fmt.Sprintf("%d to be said healthy", healthy), func() error {
		list, _, err := a.Deployments().Allocations(deployment, nil)
		a.ok(err)
		for _, s := range list {
			if s.ClientStatus == "running" && (s.DeploymentStatus == nil || s.DeploymentStatus.Healthy == nil) {
				_, _, err := a.Deployments().SetAllocHealth(deployment, []string{s.ID}, nil, nil)
				a.ok(err)
			}
		}
		d, _, err := a.Deployments().Info(deployment, nil)
		a.ok(err)
		if g := d.TaskGroups["g"]; g.HealthyAllocs != healthy {
			return fmt.Errorf("the group stands at %+v", g)
		}
		return nil
	})
}

// stands wants a deployment to have a status.
func stands(a *agent, deployment, status string) {
	a.t.Helper()
	a.eventually("the deployment is "+status, func() error {
		d, _, err := a.Deployments().Info(deployment, nil)
		if err == nil && d.Status != status {
			err = fmt.Errorf("it is %s: %s", d.Status, d.StatusDescription)
		}
		return err
	})
}

// deployed drives deployments as people do who decide by hand: canaries of all groups and of one are promoted, one is
// paused and goes on, one is failed, and a job goes back to a version that is marked as stable.
func deployed(a *agent) {
	one := rolls(a, "1")
	decided(a, one.ID, 2)
	stands(a, one.ID, api.DeploymentStatusSuccessful)

	two := rolls(a, "2")
	decided(a, two.ID, 1)
	_, _, err := a.Deployments().Pause(two.ID, true, nil)
	a.ok(err)
	stands(a, two.ID, api.DeploymentStatusPaused)
	_, _, err = a.Deployments().Pause(two.ID, false, nil)
	a.ok(err)
	stands(a, two.ID, api.DeploymentStatusRunning)
	_, _, err = a.Deployments().PromoteAll(two.ID, nil)
	a.ok(err)
	decided(a, two.ID, 2)
	stands(a, two.ID, api.DeploymentStatusSuccessful)

	three := rolls(a, "3")
	_, _, err = a.Deployments().PromoteGroups(three.ID, []string{"g"}, nil)
	if err == nil {
		a.t.Error("a canary that is not healthy was promoted")
	}
	decided(a, three.ID, 1)
	_, _, err = a.Deployments().PromoteGroups(three.ID, []string{"g"}, nil)
	a.ok(err)
	decided(a, three.ID, 2)
	stands(a, three.ID, api.DeploymentStatusSuccessful)

	four := rolls(a, "4")
	_, _, err = a.Deployments().Fail(four.ID, nil)
	a.ok(err)
	stands(a, four.ID, api.DeploymentStatusFailed)
	_, _, err = a.Deployments().Unblock(four.ID, nil)
	a.refused(err, "501 (")
	begins, _, err := a.Deployments().PrefixList(four.ID[:4])
	a.ok(err)
	if len(begins) == 0 || begins[0].JobID != "rolled" {
		a.t.Errorf("deployments that begin with %s: %+v", four.ID[:4], begins)
	}
	goesBack(a)
	planned(a)
	_, _, err = a.Jobs().DeregisterOpts("rolled", &api.DeregisterOptions{Purge: true, EvalPriority: 80}, nil)
	a.ok(err)
	refusedOfParts(a)
}

// goesBack marks a version as stable, and goes back to it.
func goesBack(a *agent) {
	a.t.Helper()
	_, _, err := a.Jobs().Stable("rolled", 0, true, nil)
	a.ok(err)
	_, err = a.Jobs().TagVersionOpts("rolled", "newest", &api.TagVersionRequest{Latest: true}, nil)
	a.ok(err)
	wrong := uint64(1)
	_, _, err = a.Jobs().Revert("rolled", 0, &wrong, nil, "", "")
	if err == nil {
		a.t.Error("a job went back from a version that it has not")
	}
	_, _, err = a.Jobs().Revert("rolled", 0, nil, nil, "", "")
	a.ok(err)
	job, _, err := a.Jobs().Info("rolled", nil)
	a.ok(err)
	tagged, _, err := a.Jobs().VersionByTag("rolled", "newest", nil)
	a.ok(err)
	if args := job.TaskGroups[0].Tasks[0].Config["args"]; fmt.Sprint(args) != "[infinity 1]" || *job.Version != 4 ||
		*tagged.Version != 3 {
		a.t.Errorf("gone back to %v, as version %d; the newest was %d", args, *job.Version, *tagged.Version)
	}
}

// planned asks what a scaling would do, and does it.
func planned(a *agent) {
	a.t.Helper()
	job, _, err := a.Jobs().Info("rolled", nil)
	a.ok(err)
	three := 3
	job.TaskGroups[0].Count = &three
	plan, _, err := a.Jobs().PlanOpts(job, &api.PlanOptions{Diff: true}, nil)
	a.ok(err)
	if plan.Diff == nil || plan.Diff.Type != "Edited" {
		a.t.Errorf("the plan is %+v", plan)
	}
	var latest *api.Deployment
	a.eventually("the version that the job went back to is deployed", func() (err error) {
		latest, _, err = a.Jobs().LatestDeployment("rolled", nil)
		if err == nil && latest.JobVersion != *job.Version {
			err = fmt.Errorf("the latest deployment is %+v", latest)
		}
		return err
	})
	_, _, err = a.Deployments().Fail(latest.ID, nil) // a group is not scaled while it is deployed
	a.ok(err)
	stands(a, latest.ID, api.DeploymentStatusFailed)
	count := int64(1)
	_, _, err = a.Jobs().ScaleWithRequest("rolled", &api.ScalingRequest{
		Count:          &count,
		Target:         map[string]string{"Group": "g"},
		JobModifyIndex: 1,
	}, nil)
	if err == nil {
		a.t.Error("a job was scaled that had been changed meanwhile")
	}
	_, _, err = a.Jobs().ScaleWithRequest("rolled", &api.ScalingRequest{
		Count:  &count,
		Target: map[string]string{"Group": "g"},
	}, nil)
	a.ok(err)
	list, _, err := a.Jobs().ListOptions(&api.JobListOptions{Fields: &api.JobListFields{Meta: true}}, nil)
	a.ok(err)
	if len(list) == 0 {
		a.t.Error("no job is listed")
	}
	evals, _, err := a.Evaluations().List(&api.QueryOptions{Filter: `JobID == "rolled"`})
	a.ok(err)
	allocs, _, err := a.Allocations().List(&api.QueryOptions{Filter: `JobID == "rolled"`})
	a.ok(err)
	if len(evals) < 5 || len(allocs) < 4 {
		a.t.Errorf("%d evaluations and %d allocations are listed", len(evals), len(allocs))
	}
	collected(a, allocs)
}

// collected has the node forget an allocation that is over, by both methods that the client has for it. One wants an
// empty answer, as it gets it, and the other complains of that.
func collected(a *agent, allocs []*api.AllocationListStub) {
	a.t.Helper()
	local, err := api.NewClient(&api.Config{Address: "unix://" + a.socket})
	a.ok(err)
	local.SetSecretID(a.first.SecretID)
	var over []string
	for _, s := range allocs {
		if s.ClientStatus == api.AllocClientStatusComplete {
			over = append(over, s.ID)
		}
	}
	if len(over) < 2 {
		a.t.Fatalf("%d allocations are over", len(over))
	}
	a.ok(local.Nodes().GcAlloc(over[0], nil))
	a.refused(local.Nodes().GcAlloc(over[0], nil), "it is not on this node")
	a.refused(local.Allocations().GC(&api.Allocation{ID: over[1]}, nil), "0 byte response")
	a.refused(local.Nodes().GcAlloc(over[1], nil), "it is not on this node")
}

// refusedOfParts are the calls of these parts that stand for what is not built: each is answered by its name.
func refusedOfParts(a *agent) {
	a.t.Helper()
	_, err := a.Evaluations().Delete([]string{"00000000-0000-4000-8000-000000000000"}, nil)
	a.refused(err, "501 (")
	_, _, err = a.Evaluations().DeleteOpts(&api.EvalDeleteRequest{Filter: `Status == "complete"`}, nil)
	a.refused(err, "501 (")
	_, _, err = a.Search().FuzzySearch("rolled", contexts.Jobs, nil)
	a.refused(err, "501 (")
	alloc := webAlloc(a)
	a.refused(a.Allocations().SetPauseState(alloc, nil, "t", "pause"), "501 (")
	_, _, err = a.Allocations().GetPauseState(alloc, nil, "t")
	a.refused(err, "501 (")
	_, err = a.Jobs().ActionExec(context.Background(), alloc, "web", "t", false, nil, "none", strings.NewReader(""),
		&bytes.Buffer{}, &bytes.Buffer{}, nil, nil)
	if err == nil {
		a.t.Error("an action was run")
	}
}

// locked holds a lock by the handle that the client has for programs.
func locked(a *agent) {
	a.t.Helper()
	v := api.NewVariable("app/whole")
	v.Items["k"] = "v"
	made, _, err := a.Variables().Create(v, nil)
	a.ok(err)
	made.Items["k"] = "w"
	_, _, err = a.Variables().Update(made, nil)
	a.ok(err)
	items, _, err := a.Variables().GetVariableItems("app/whole", nil)
	a.ok(err)
	same, _, err := a.Variables().GetItems("app/whole", nil)
	a.ok(err)
	if items["k"] != "w" || (*same)["k"] != "w" {
		a.t.Errorf("the items are %v and %v", items, same)
	}
	if none, _, err := a.Variables().Peek("app/none", nil); err != nil || none != nil {
		a.t.Errorf("what is not there is %+v: %v", none, err)
	}
	_, err = a.Variables().Delete("app/whole", nil)
	a.ok(err)

	handle := func() *api.Locks {
		l, err := a.Client.Locks(api.WriteOptions{}, api.Variable{
			Path: "app/held",
			Lock: &api.VariableLock{TTL: "15s", LockDelay: "1s"},
		})
		a.ok(err)
		return l
	}
	mine, others := handle(), handle()
	if mine.LockTTL().Seconds() != 15 {
		a.t.Errorf("the lock is good for %s", mine.LockTTL())
	}
	path, err := mine.Acquire(context.Background())
	a.ok(err)
	if _, err := others.Acquire(context.Background()); err == nil || path != "app/held" {
		a.t.Errorf("%s is held by two", path)
	}
	a.ok(mine.Renew(context.Background()))
	a.ok(mine.Release(context.Background()))
	if _, err := others.Acquire(context.Background()); err != nil {
		a.t.Errorf("what was released: %v", err)
	}
	a.ok(others.Release(context.Background()))
	_, err = a.Variables().Delete("app/held", nil)
	a.ok(err)
}
