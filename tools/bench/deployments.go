package main

import (
	"context"
	"fmt"
	"time"

	"berth/api"
)

// deployed measures the deployment of a new version that replaces all allocs of a job, a tenth of them at a time, each
// healthy as soon as it runs.
func (a *agent) deployed(ctx context.Context, r *report, n int) error {
	job := sleeper("deployed", n, isolated(""))
	parallel, least := max(1, n/10), time.Millisecond
	job.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: &parallel, MinHealthyTime: &least}
	if err := a.version(ctx, job); err != nil {
		return err
	}
	job.TaskGroups[0].Tasks[0].Env = map[string]string{"VERSION": "2"}
	begin := time.Now()
	if err := a.version(ctx, job); err != nil {
		return err
	}
	r.add(figure{
		name: fmt.Sprintf("Deployment of %d allocs of an `exec` task, a tenth at a time: registered → successful",
			n),
		unit:    "ms",
		samples: []float64{ms(time.Since(begin))},
	})
	_, _, err := a.api.Jobs().Deregister(ctx, "deployed", api.JobDeregisterOptions{Purge: true}, nil)
	return err
}

// version registers a version of a job, and waits until its deployment is successful.
func (a *agent) version(ctx context.Context, job *api.Job) error {
	reg, _, err := a.api.Jobs().Register(ctx, &api.JobRegisterRequest{Job: job}, nil)
	if err != nil {
		return err
	}
	o := &api.QueryOptions{WaitTime: 20 * time.Second}
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		d, meta, err := a.api.Jobs().Deployment(ctx, *job.ID, o)
		if err != nil {
			return err
		}
		if d != nil && d.JobSpecModifyIndex == reg.JobModifyIndex {
			switch d.Status {
			case api.DeploymentStatusSuccessful:
				return nil
			case api.DeploymentStatusFailed, api.DeploymentStatusCancelled:
				return fmt.Errorf("the deployment of %s is %s: %s", *job.ID, d.Status, d.StatusDescription)
			}
		}
		o.WaitIndex = meta.Index
	}
	return fmt.Errorf("the deployment of %s has not ended after five minutes", *job.ID)
}
