package deployments

import (
	"berth/internal/base/ids"
	"berth/internal/model/deployment"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// CollectSchema is the number of the cluster from which on deployments are forgotten before the versions of their jobs.
const CollectSchema = 14

func init() { fsm.Register[Collect]("deployments-collect", CollectSchema, "server/gc") }

// Collect forgets deployments that are over. Each is looked at again here.
type Collect struct{ Deployments []ids.Deployment }

// Releases lets it through when the disk is nearly full, because it frees space.
func (c *Collect) Releases() bool { return true }

// Apply returns how many were forgotten.
func (c *Collect) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	n := 0
	for _, id := range c.Deployments {
		if d := tx.Deployment(nil, id); d != nil && Over(&tx.Snap, d) && tx.DeleteDeployment(id) {
			n++
		}
	}
	return n, nil
}

// Over reports whether nothing asks for a deployment any more: it has ended, and nothing of it runs. That of a job's
// present version stays as long as the version: by it the scheduler knows that this version was brought about, or
// failed.
func Over(s *state.Snap, d *deployment.Deployment) bool {
	if d.Active() {
		return false
	}
	j := s.Job(nil, d.Namespace, d.Job)
	if j != nil && j.CreateIndex == d.JobCreateIndex && j.Version == d.JobVersion {
		return false
	}
	for a := range s.AllocsByJob(nil, d.Namespace, d.Job) {
		if a.Deployment == d.ID && !a.ClientTerminal() {
			return false
		}
	}
	return true
}
