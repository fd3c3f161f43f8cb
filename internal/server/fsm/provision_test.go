package fsm_test

import (
	"reflect"
	"slices"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/recovery"
	"berth/internal/testkit/localstate"
)

// bringing is a job that says how to make its volumes data[0], data[1] and so on.
func bringing(count int) *job.Job {
	j := aJob("db")
	j.TaskGroups[0].Count = count
	j.TaskGroups[0].Volumes = map[string]*job.VolumeRequest{"data": {
		Name:           "data",
		Type:           job.VolumeTypeCSI,
		Source:         "data",
		PerAlloc:       true,
		AccessMode:     string(volume.SingleNodeWriter),
		AttachmentMode: string(volume.FileSystem),
		MountOptions:   &job.MountOptions{FSType: "ext4", MountFlags: []string{"noatime"}},
		Create: &job.VolumeCreate{
			PluginID:    "p",
			CapacityMin: 1 << 30,
			CapacityMax: 2 << 30,
			Parameters:  map[string]string{"kind": "fast"},
			Ownership:   &volume.Ownership{Policy: volume.OwnRoot},
		},
	}}
	return j
}

func volumesOf(c *localstate.Cluster) (out []ids.Volume) {
	for v := range c.Store.Snapshot().Volumes(nil, ids.DefaultNamespace, "") {
		out = append(out, v.ID.ID)
	}
	return out
}

// TestARegistrationRecordsTheVolumesThatItMakes: given a job that says how to make its volumes, when it is registered,
// then those that are not there are recorded with it, to be created, and those that are there stay as they are.
func TestARegistrationRecordsTheVolumesThatItMakes(t *testing.T) {
	c := localstate.New(t)
	c.Must(t, &fsm.PluginLearn{Record: &plugin.Record{ID: "p", Provider: "p.example", Version: "1"}})
	there := &volume.Volume{
		ID:     volume.ID{Namespace: ids.DefaultNamespace, ID: "data[1]"},
		UID:    "u",
		Spec:   volume.Spec{Plugin: "p"},
		Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x"},
	}
	c.Must(t, &fsm.VolumePut{Volume: there})
	register(t, c, bringing(3))

	if got, want := volumesOf(c), []ids.Volume{"data[0]", "data[1]", "data[2]"}; !slices.Equal(got, want) {
		t.Fatalf("volumes %q, want %q", got, want)
	}
	s := c.Store.Snapshot()
	made := s.Volume(nil, volume.ID{Namespace: ids.DefaultNamespace, ID: "data[2]"})
	want := volume.Spec{
		Plugin:       "p",
		Capabilities: []volume.Capability{{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}},
		CapacityMin:  1 << 30,
		CapacityMax:  2 << 30,
		MountOptions: &volume.MountOptions{FSType: "ext4", MountFlags: []string{"noatime"}},
		Parameters:   map[string]string{"kind": "fast"},
		Ownership:    &volume.Ownership{Policy: volume.OwnRoot},
	}
	if !reflect.DeepEqual(made.Spec, want) {
		t.Errorf("asked of the plugin is %+v, want %+v", made.Spec, want)
	}
	first := s.Volume(nil, volume.ID{Namespace: ids.DefaultNamespace, ID: "data[0]"})
	if !ids.IsUUID(made.UID) || made.UID == first.UID {
		t.Errorf("uids %q and %q", made.UID, first.UID)
	}
	if st := made.Status; st.Phase != volume.PhaseCreating || st.Presence != volume.Absent || st.Since.IsZero() ||
		st.Provider != "p.example" || st.ProviderVersion != "1" {
		t.Errorf("status %+v", st)
	}
	if got := s.Volume(nil, there.ID); got.UID != "u" || got.Status.Phase != volume.PhaseReady {
		t.Errorf("the volume that was there is %+v", got)
	}
}

// TestARegistrationMakesVolumesForTheCountThatItKeeps: given a job of two, when it is registered with another count
// that the present one takes the place of, then there are volumes for two.
func TestARegistrationMakesVolumesForTheCountThatItKeeps(t *testing.T) {
	c := localstate.New(t)
	register(t, c, bringing(2))
	c.Must(t, &fsm.JobRegister{Job: bringing(5), PreserveCounts: true, Seed: ids.New()})
	if got := volumesOf(c); len(got) != 2 {
		t.Errorf("volumes %q", got)
	}
}

// TestWhatAProviderRefusedToMakeIsAskedForAgain: given a volume that its provider refused to make, when the same job is
// registered again, then it is recorded anew, under another name at the provider.
func TestWhatAProviderRefusedToMakeIsAskedForAgain(t *testing.T) {
	c := localstate.New(t)
	register(t, c, bringing(1))
	id := volume.ID{Namespace: ids.DefaultNamespace, ID: "data[0]"}
	refused := *c.Store.Snapshot().Volume(nil, id)
	refused.Status.Phase, refused.Status.LastError = volume.PhaseFailed, "no such kind"
	c.Must(t, &fsm.VolumePut{Volume: &refused, Seen: refused.ModifyIndex})
	if done := register(t, c, bringing(1)); done.Outcome != fsm.Unchanged {
		t.Errorf("the same job again is %s", done.Outcome)
	}
	v := c.Store.Snapshot().Volume(nil, id)
	if v.Status.Phase != volume.PhaseCreating || v.Status.LastError != "" || v.UID == refused.UID {
		t.Errorf("the volume is %+v", v)
	}
}

// TestARegistrationThatIsRefusedMakesNothing: given a registration that expects another version of the job, or whose
// volume cannot be recorded, when it is refused, then there is neither a volume nor a job.
func TestARegistrationThatIsRefusedMakesNothing(t *testing.T) {
	c := localstate.New(t)
	late := &fsm.JobRegister{Job: bringing(1), EnforceIndex: true, ModifyIndex: 7, Seed: ids.New()}
	_, _, err := c.Propose(t.Context(), late)
	if !fault.Has(err, fault.Conflict) || len(volumesOf(c)) > 0 {
		t.Errorf("%v; volumes %q", err, volumesOf(c))
	}
	c.Must(t, &fsm.NodeRegister{Node: aNode()})
	c.Must(t, &recovery.Begin{Incarnation: ids.New(), Mark: ids.New(), Cause: "a test"})
	_, _, err = c.Propose(t.Context(), &fsm.JobRegister{Job: bringing(1), Seed: ids.New()})
	if err == nil || len(volumesOf(c)) > 0 || c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "db") != nil {
		t.Errorf("%v; volumes %q", err, volumesOf(c))
	}
}

// TestACorrectedJobReplacesWhatWasAskedForInVain: given a volume that a job asks for and of which nothing was made,
// when the job is registered with other parameters, then those are asked for, under another name; where the provider
// may have begun, and where a person has asked, it stays as it is.
func TestACorrectedJobReplacesWhatWasAskedForInVain(t *testing.T) {
	id := volume.ID{Namespace: ids.DefaultNamespace, ID: "data[0]"}
	for what, c := range map[string]struct {
		change   func(*volume.Volume)
		replaced bool
	}{
		"refused for now":      {func(v *volume.Volume) { v.Status.LastError = "permission denied" }, true},
		"perhaps made":         {func(v *volume.Volume) { v.Status.Presence = volume.Uncertain }, false},
		"under way":            {func(v *volume.Volume) { v.Status.Executor = "n" }, false},
		"of a state from back": {func(v *volume.Volume) { v.Status.Suspended = true }, false},
		"a person's":           {func(v *volume.Volume) { v.Spec.Parameters = nil }, false},
	} {
		cl := localstate.New(t)
		register(t, cl, bringing(1))
		before := *cl.Store.Snapshot().Volume(nil, id)
		c.change(&before)
		cl.Must(t, &fsm.VolumePut{Volume: &before, Seen: before.ModifyIndex})
		j := bringing(1)
		j.TaskGroups[0].Volumes["data"].Create.Parameters = map[string]string{"kind": "slow"}
		register(t, cl, j)
		v := cl.Store.Snapshot().Volume(nil, id)
		if got := v.Spec.Parameters["kind"] == "slow" && v.UID != before.UID; got != c.replaced {
			t.Errorf("%s: %+v", what, v)
		}
	}
}

// TestWhatNoJobAsksForAnyMoreIsNotLeftBehind: given a volume that its provider refused to make, when its job is
// stopped, purged or has another in its place, then there is no record of it; one that was made stays, and so does one
// that another job asks for.
func TestWhatNoJobAsksForAnyMoreIsNotLeftBehind(t *testing.T) {
	id := volume.ID{Namespace: ids.DefaultNamespace, ID: "data[0]"}
	other := bringing(1)
	other.TaskGroups[0].Volumes["data"].Source = "other"
	second := bringing(1)
	second.ID = "second"
	for what, c := range map[string]struct {
		phase volume.Phase
		also  *job.Job
		end   fsm.Command
		stays bool
	}{
		"stopped": {phase: volume.PhaseFailed,
			end: &fsm.JobDeregister{Namespace: id.Namespace, Job: "db", Seed: ids.New()}},
		"purged": {phase: volume.PhaseFailed,
			end: &fsm.JobDeregister{Namespace: id.Namespace, Job: "db", Purge: true, Seed: ids.New()}},
		"another in its place": {phase: volume.PhaseFailed, end: &fsm.JobRegister{Job: other, Seed: ids.New()}},
		"of two jobs": {phase: volume.PhaseFailed, also: second, stays: true,
			end: &fsm.JobDeregister{Namespace: id.Namespace, Job: "db", Seed: ids.New()}},
		"one that was made": {phase: volume.PhaseReady, stays: true,
			end: &fsm.JobDeregister{Namespace: id.Namespace, Job: "db", Purge: true, Seed: ids.New()}},
	} {
		cl := localstate.New(t)
		register(t, cl, bringing(1))
		if c.also != nil {
			register(t, cl, c.also)
		}
		v := *cl.Store.Snapshot().Volume(nil, id)
		v.Status.Phase = c.phase
		cl.Must(t, &fsm.VolumePut{Volume: &v, Seen: v.ModifyIndex})
		cl.Must(t, c.end)
		if got := cl.Store.Snapshot().Volume(nil, id) != nil; got != c.stays {
			t.Errorf("%s: there is a record: %v", what, got)
		}
	}
}
