package views

import (
	"slices"

	"berth/internal/derive/progress"
	"berth/internal/model/deployment"
	"berth/internal/model/job"
	"berth/internal/server/state"
)

// Deployment is a deployment with how far it has come, and the index of that. Of one that is over nothing changes any
// more.
func Deployment(s *state.Snap, w *state.Watch, d *deployment.Deployment) (*progress.View, uint64) {
	if !d.Active() {
		w = nil
	}
	all := slices.Collect(s.AllocsByJob(w, d.Namespace, d.Job))
	v, index := progress.Of(d, all), d.ModifyIndex
	for _, a := range all {
		if a.Deployment == d.ID {
			index = max(index, a.ModifyIndex)
		}
	}
	return v, index
}

// LatestDeployment is the last one of a job; nil: it has none.
func LatestDeployment(s *state.Snap, w *state.Watch, j *job.Job) *progress.View {
	var last *deployment.Deployment
	for d := range s.DeploymentsByJob(w, j.Namespace, j.ID) {
		if d.JobCreateIndex == j.CreateIndex && (last == nil || d.CreateIndex > last.CreateIndex) {
			last = d
		}
	}
	if last == nil {
		return nil
	}
	v, _ := Deployment(s, w, last)
	return v
}
