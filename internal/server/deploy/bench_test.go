package deploy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// BenchmarkDeployment decides about the health of each alloc of a deployment in a command of its own, the last of which
// makes it successful, and tells how long all of them take to apply.
func BenchmarkDeployment(b *testing.B) {
	for _, count := range []int{500, 5000} {
		b.Run(fmt.Sprintf("allocs=%d", count), func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				c, allocs := deployed(b, count)
				begin := time.Now()
				for _, a := range allocs {
					c.Must(b, &fsm.AllocHealth{Seed: ids.New(), Decisions: []fsm.HealthDecision{{
						Alloc:   a,
						Seen:    c.Store.Snapshot().Alloc(nil, a).ModifyIndex,
						Healthy: true,
					}}})
				}
				took = append(took, time.Since(begin))
				for d := range c.Store.Snapshot().Deployments(nil, "") {
					if d.Status != deployment.Successful {
						b.Fatalf("the deployment is %s: %s", d.Status, d.StatusDescription)
					}
				}
			}
			slices.Sort(took)
			for name, d := range map[string]time.Duration{
				"min-ms": took[0],
				"p50-ms": took[len(took)/2],
				"p95-ms": took[len(took)*95/100],
				"max-ms": took[len(took)-1],
			} {
				b.ReportMetric(float64(d.Microseconds())/1000, name)
			}
		})
	}
}

// deployed is a state in which all allocs of a deployment run and none is healthy yet.
func deployed(b *testing.B, count int) (*localstate.Cluster, []ids.Alloc) {
	b.Helper()
	c := localstate.New(b)
	c.Must(b, &fsm.NodeRegister{Seed: ids.New(), Node: &node.Node{ID: "n1", Name: "n1", SecretHash: "h"}})
	c.Must(b, &fsm.JobRegister{Job: web("a", count), Seed: ids.New()})
	j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web")
	d := &deployment.Deployment{
		ID:             deployment.IDOf(j.Namespace, j.ID, j.CreateIndex, j.Version),
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobCreateIndex: j.CreateIndex,
		JobModifyIndex: j.JobModifyIndex,
		Groups:         map[string]*deployment.Group{"g": {DesiredTotal: count, ProgressDeadline: time.Hour}},
		Status:         deployment.Running,
	}
	plan := &fsm.PlanApply{Deployment: d}
	out := make([]ids.Alloc, count)
	for i := range count {
		out[i] = ids.Alloc(ids.New())
		plan.Place = append(plan.Place, &alloc.Alloc{
			ID:             out[i],
			Namespace:      j.Namespace,
			Name:           fmt.Sprintf("web.g[%d]", i),
			Node:           "n1",
			Job:            j.ID,
			JobType:        job.TypeService,
			JobCreateIndex: j.CreateIndex,
			TaskGroup:      "g",
			Index:          i,
			Deployment:     d.ID,
			DesiredStatus:  alloc.DesiredRun,
			ClientStatus:   alloc.ClientRunning,
		})
	}
	c.Must(b, plan)
	return c, out
}
