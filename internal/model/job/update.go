package job

import "slices"

// TriesVersions reports a job whose updates ask for what only a deployment can do: canaries, or a way back.
func (j *Job) TriesVersions() bool {
	return slices.ContainsFunc(j.TaskGroups, func(g *TaskGroup) bool {
		u := g.Update
		return u != nil && (u.Canary > 0 || u.AutoRevert || u.AutoPromote)
	})
}

// Deploys reports a group whose updates are deployments: they roll, or are tried by canaries.
func (g *TaskGroup) Deploys() bool { return g.Update != nil && g.Update.MaxParallel > 0 }

// canaries are those that an update of the group is tried by.
func (g *TaskGroup) canaries() int {
	if g.Update == nil {
		return 0
	}
	return g.Update.Canary
}
