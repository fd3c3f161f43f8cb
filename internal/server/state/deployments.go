package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/base/instants"
	"berth/internal/model/deployment"
)

// Deployments names the table of deployments.
const Deployments = "deployments"

var deployments = &table[deployment.Deployment]{
	name: Deployments,
	key:  func(d *deployment.Deployment) Key { return KeyOf(d.ID) },
	indexes: []index[deployment.Deployment]{
		one(byJob, func(d *deployment.Deployment) Key { return jobKey(d.Namespace, d.Job) }),
		those(open, (*deployment.Deployment).Active),
	},
	stamp:    stamping(func(d *deployment.Deployment) (*uint64, *uint64) { return &d.CreateIndex, &d.ModifyIndex }),
	modified: func(d *deployment.Deployment) uint64 { return d.ModifyIndex },
}

// Deployment returns a deployment, or nil.
func (s *Snap) Deployment(w *Watch, id ids.Deployment) *deployment.Deployment {
	return deployments.get(s, w, KeyOf(id))
}

// Deployments yields the deployments whose id begins with prefix, by id.
func (s *Snap) Deployments(w *Watch, prefix string) iter.Seq[*deployment.Deployment] {
	return deployments.scan(s, w, Key(prefix))
}

// DeploymentsByJob yields all deployments of a job's id, of purged predecessors too, by id.
func (s *Snap) DeploymentsByJob(w *Watch, ns ids.Namespace, id ids.Job) iter.Seq[*deployment.Deployment] {
	return deployments.find(s, w, byJob, jobKey(ns, id))
}

// OpenDeployments yields the deployments that are not over, by id.
func (s *Snap) OpenDeployments(w *Watch) iter.Seq[*deployment.Deployment] {
	return deployments.find(s, w, open, openKey)
}

// PutDeployment stores a deployment.
func (tx *Tx) PutDeployment(d *deployment.Deployment) {
	d.ModifyTime = instants.Nanos(tx.stamp.Time)
	if d.CreateTime == 0 {
		d.CreateTime = d.ModifyTime
	}
	deployments.put(tx, d)
}

// DeleteDeployment forgets a deployment, and tells whether it was there.
func (tx *Tx) DeleteDeployment(id ids.Deployment) bool { return deployments.drop(tx, KeyOf(id)) }
