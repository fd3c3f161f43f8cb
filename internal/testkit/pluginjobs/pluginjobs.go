// Package pluginjobs owns the jobs in which the plugins of nodes run that tests make up, as the servers demand it: each
// instance in an alloc that is placed on its node, of a job that is that plugin. Job and alloc are at rest, so that no
// scheduler and no agent does anything about them. Only tests import it.
package pluginjobs

import (
	"cmp"
	"context"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// AllocOf is the alloc in which a plugin runs on a node.
func AllocOf(on ids.Node, p ids.Plugin) ids.Alloc {
	return ids.Alloc("plugin-" + string(p) + "-" + string(on))
}

// Is tells an alloc of this package from those of a story.
func Is(a *alloc.Alloc) bool { return a.TaskGroup == groupName }

// Name gives an alloc to the instances of a node that have none.
func Name(n *node.Node) {
	for _, i := range n.CSI {
		i.Alloc = cmp.Or(i.Alloc, AllocOf(n.ID, i.Plugin))
	}
}

// Put stores a node as it is, with an alloc for each of its instances.
func Put(tx *state.Tx, n *node.Node) {
	Name(n)
	tx.PutNode(n)
	for _, i := range n.CSI {
		j := tx.Job(nil, ids.ReservedNamespace, jobOf(i.Plugin).ID)
		if j == nil {
			j = jobOf(i.Plugin)
			tx.PutJob(j)
		}
		if a := tx.Alloc(nil, i.Alloc); a == nil || tx.JobOf(nil, a) == nil {
			tx.PutAlloc(allocOf(j, n, i.Alloc))
		}
	}
}

// Place places an alloc for each instance of a node that has none yet. The node is registered. What the plugins' jobs
// say more is set by say.
func Place(
	t testing.TB, p fsm.Proposer, snap func() *state.Snap, on ids.Node, instances []*plugin.Instance,
	say ...func(*job.CSIPluginConfig),
) {
	t.Helper()
	if err := Try(t.Context(), p, snap, on, instances, say...); err != nil {
		t.Fatal(err)
	}
}

// Try is Place where the servers may not be there.
func Try(
	ctx context.Context, p fsm.Proposer, snap func() *state.Snap, on ids.Node, instances []*plugin.Instance,
	say ...func(*job.CSIPluginConfig),
) error {
	for _, i := range instances {
		if snap().Alloc(nil, i.Alloc) != nil {
			continue
		}
		want := jobOf(i.Plugin)
		for _, more := range say {
			more(want.TaskGroups[0].Tasks[0].CSIPluginConfig)
		}
		if snap().Job(nil, want.Namespace, want.ID) == nil {
			if _, _, err := p.Propose(ctx, &fsm.JobRegister{Job: want, Seed: ids.New()}); err != nil {
				return err
			}
		}
		s := snap()
		a := allocOf(s.Job(nil, want.Namespace, want.ID), s.Node(nil, on), i.Alloc)
		if _, _, err := p.Propose(ctx, &fsm.PlanApply{Place: []*alloc.Alloc{a}}); err != nil {
			return err
		}
	}
	return nil
}

const groupName = "plugin"

// jobOf is a stopped job: nobody places anything of it.
func jobOf(p ids.Plugin) *job.Job {
	return &job.Job{
		Region:      "global",
		Namespace:   ids.ReservedNamespace,
		ID:          "plugin-" + ids.Job(p),
		Name:        "plugin-" + string(p),
		Type:        job.TypeService,
		Priority:    50,
		Datacenters: []string{"*"},
		NodePool:    "default",
		Stop:        true,
		TaskGroups: []*job.TaskGroup{{
			Name:          groupName,
			Count:         1,
			EphemeralDisk: &job.EphemeralDisk{SizeMB: 10},
			Tasks: []*job.Task{{
				Name:            "plugin",
				Driver:          "none",
				Resources:       &job.Resources{CPU: 1, MemoryMB: 1},
				CSIPluginConfig: &job.CSIPluginConfig{ID: string(p), Type: job.PluginMonolith},
			}},
		}},
	}
}

// allocOf is an alloc that agents pass over, since it is lost: that says nothing of what runs.
func allocOf(j *job.Job, n *node.Node, id ids.Alloc) *alloc.Alloc {
	return &alloc.Alloc{
		ID:             id,
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobVersion:     j.Version,
		JobCreateIndex: j.CreateIndex,
		JobType:        j.Type,
		Name:           string(j.ID) + ".plugin[0]",
		Node:           n.ID,
		NodeName:       n.Name,
		TaskGroup:      groupName,
		DesiredStatus:  alloc.DesiredStop,
		ClientStatus:   alloc.ClientLost,
	}
}
