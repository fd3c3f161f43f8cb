package validate

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/provision"
	"berth/internal/server/state"
	"berth/internal/testkit/pluginjobs"
)

// bringing is a job whose group g says of each volume how plugin p makes it.
func bringing(change func(*job.VolumeRequest), more ...*job.TaskGroup) *job.Job {
	r := &job.VolumeRequest{
		Name:           "data",
		Type:           job.VolumeTypeCSI,
		Source:         "v",
		AccessMode:     string(writer.AccessMode),
		AttachmentMode: string(writer.AttachmentMode),
		Create:         &job.VolumeCreate{PluginID: "p", CapacityMin: 1000},
	}
	if change != nil {
		change(r)
	}
	g := &job.TaskGroup{Name: "g", Count: 1, Volumes: map[string]*job.VolumeRequest{"data": r}}
	return &job.Job{Namespace: ids.DefaultNamespace, ID: "db", TaskGroups: append([]*job.TaskGroup{g}, more...)}
}

// TestVolumesThatAJobBringsAreJudgedBeforeItIsRegistered: given a job that says how to make a volume, when it is
// judged, then what the plugin cannot make, and what is there as another volume, is refused by the names of job, group
// and volume; a volume that is smaller than what the job says is warned of.
func TestVolumesThatAJobBringsAreJudgedBeforeItIsRegistered(t *testing.T) {
	elsewhere := func(r *job.VolumeRequest) { r.Source = "new" }
	phase := func(p volume.Phase) func(*volume.Volume) { return func(v *volume.Volume) { v.Status.Phase = p } }
	for what, c := range map[string]struct {
		rec     *plugin.Record
		stored  func(*volume.Volume) // what is there as v
		job     *job.Job
		refusal string
		warning string
	}{
		"one that is there":    {rec: able(), job: bringing(nil)},
		"one that is not":      {rec: able(), job: bringing(elsewhere)},
		"one without a plugin": {job: bringing(elsewhere), refusal: `plugin "p" is not known`},
		"of a plugin without such": {rec: &plugin.Record{ID: "p", Negotiated: true}, job: bringing(elsewhere),
			refusal: "no controller"},
		"one that was refused before": {rec: able(), stored: phase(volume.PhaseFailed), job: bringing(nil)},
		"one that is being made":      {rec: able(), stored: phase(volume.PhaseCreating), job: bringing(nil)},
		"one that is going": {rec: able(), stored: phase(volume.PhaseDeleting), job: bringing(nil),
			refusal: "being deleted"},
		"another plugin's": {rec: able(), stored: func(v *volume.Volume) { v.Spec.Plugin = "q" }, job: bringing(nil),
			refusal: `is plugin "q"'s`},
		"a smaller one": {rec: able(), job: bringing(func(r *job.VolumeRequest) { r.Create.CapacityMin = 2000 }),
			warning: "berth volume expand -size=2000 v"},
		"one that names no plugin": {rec: able(), job: bringing(func(r *job.VolumeRequest) { r.Create.PluginID = "" }),
			refusal: "missing plugin id"},
		"an upper limit below the lower": {rec: able(), refusal: "capacity_max",
			job: bringing(func(r *job.VolumeRequest) { r.Create.CapacityMax = 10 })},
		"an owner that nobody can be": {rec: able(), refusal: "ownership policy",
			job: bringing(func(r *job.VolumeRequest) { r.Create.Ownership = &volume.Ownership{Policy: "all"} })},
		"two that say the same": {rec: able(), job: bringing(elsewhere,
			bringing(elsewhere).TaskGroups[0])},
		"two that do not": {rec: able(), refusal: "in another way", job: bringing(elsewhere,
			bringing(func(r *job.VolumeRequest) { elsewhere(r); r.Create.CapacityMin = 7 }).TaskGroups[0])},
	} {
		s, v := stored(t, false, c.rec)
		if c.stored != nil {
			s = changed(t, v, c.rec, c.stored)
		}
		warnings, err := provided(s, c.job)
		judged(t, what, err, c.refusal)
		if c.refusal != "" && err != nil && !strings.Contains(err.Error(), `job "db": group "g": volume "data"`) {
			t.Errorf("%s: the refusal does not say where: %v", what, err)
		}
		if got := strings.Join(warnings, "\n"); (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) {
			t.Errorf("%s: warned of %q, want %q", what, got, c.warning)
		}
	}
}

// TestEveryVolumeThatCannotBeMadeIsNamed: given a job with two volumes that cannot be made, then both are named at
// once.
func TestEveryVolumeThatCannotBeMadeIsNamed(t *testing.T) {
	s, _ := stored(t, false, nil)
	j := bringing(func(r *job.VolumeRequest) { r.Source, r.PerAlloc = "new", true })
	j.TaskGroups[0].Count = 2
	_, err := provided(s, j)
	for _, id := range []string{"new[0]", "new[1]"} {
		judged(t, "two volumes", err, id)
	}
}

// TestAClusterWithOlderServersTakesNoVolumesOfJobs: given a cluster in which a server is older than jobs that make
// volumes, when such a job is registered, then it is refused before one server makes what another does not; jobs
// without such volumes are taken.
func TestAClusterWithOlderServersTakesNoVolumesOfJobs(t *testing.T) {
	at := func(schema uint64) *state.Snap {
		store := state.New()
		err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error {
			tx.PutMeta(&state.Meta{Schema: schema})
			tx.PutPlugin(able())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return store.Snapshot()
	}
	_, err := provided(at(provision.Schema-1), bringing(nil))
	judged(t, "an older cluster", err, "upgrade every server first")
	if err != nil && !strings.Contains(err.Error(), `job "db": group "g": volume "data"`) {
		t.Errorf("the refusal does not say where: %v", err)
	}
	plain := bringing(func(r *job.VolumeRequest) { r.Create = nil })
	if _, err := provided(at(provision.Schema-1), plain); err != nil {
		t.Errorf("a job without such volumes: %v", err)
	}
	_, err = provided(at(provision.Schema), bringing(nil))
	judged(t, "a cluster of today", err, "")
}

// changed is a state with one volume that differs from v, and a plugin.
func changed(t *testing.T, v *volume.Volume, rec *plugin.Record, how func(*volume.Volume)) *state.Snap {
	t.Helper()
	n := *v
	how(&n)
	store := state.New()
	err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error {
		tx.PutVolume(&n)
		if rec != nil {
			tx.PutPlugin(rec)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return store.Snapshot()
}

// TestAVolumeIsNotMadeWhereItsJobMayNotRun: given a plugin whose volumes live on the nodes that made them, when a job
// brings one that may run on none of these nodes, then it is refused once, by the reason of each node and with the way
// out; one that may run on a node of them is taken, and so is one whose volumes any node can use.
func TestAVolumeIsNotMadeWhereItsJobMayNotRun(t *testing.T) {
	on := func(name string, edit func(*job.VolumeRequest)) *job.Job {
		j := bringing(edit)
		j.TaskGroups[0].Constraints = []*job.Constraint{{LTarget: "${node.unique.name}", Operand: "=", RTarget: name}}
		return j
	}
	many := on("c", func(r *job.VolumeRequest) { r.PerAlloc = true })
	many.TaskGroups[0].Count = 3
	pool := bringing(nil)
	pool.NodePool = "gpu"
	for what, c := range map[string]struct {
		scope   plugin.Scope
		there   *volume.Volume
		job     *job.Job
		refusal string
	}{
		"a node without the plugin": {scope: plugin.ScopeNode, job: on("c", nil),
			refusal: `node a: constraint "${node.unique.name} = c" does not hold: the node has "a"; node b: `},
		"each of its allocs": {scope: plugin.ScopeNode, job: many, refusal: "on one on which this job may run"},
		"another pool":       {scope: plugin.ScopeNode, job: pool, refusal: `the node is in pool "default"`},
		"a node with it":     {scope: plugin.ScopeNode, job: on("b", nil)},
		"a plugin for all":   {scope: plugin.ScopeCluster, job: on("c", nil)},
		"a volume that is made": {scope: plugin.ScopeNode, job: on("c", nil), there: &volume.Volume{ID: volumeID,
			Spec: volume.Spec{Plugin: "p"}, Status: volume.Status{Phase: volume.PhaseReady, Presence: volume.Present}}},
	} {
		store := state.New()
		err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error {
			rec := able()
			rec.Scope = c.scope
			tx.PutPlugin(rec)
			for _, name := range []string{"a", "b", "c"} {
				n := &node.Node{ID: ids.Node(name), Name: name, Status: node.StatusReady}
				if name != "c" {
					n.CSI = []*plugin.Instance{{Plugin: "p", Role: plugin.RoleController, State: plugin.Ready}}
				}
				pluginjobs.Put(tx, n)
			}
			if c.there != nil {
				tx.PutVolume(c.there)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = provided(store.Snapshot(), c.job)
		judged(t, what, err, c.refusal)
		if n := len(Each(err)); n > 1 {
			t.Errorf("%s: it is said %d times", what, n)
		}
	}
}
