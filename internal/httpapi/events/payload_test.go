package events

import (
	"testing"

	"berth/api"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// TestAnAllocsEventHasNoJob: a server sends of the job no more than the alloc's group, and whoever read that as the job
// would take the other groups for gone.
func TestAnAllocsEventHasNoJob(t *testing.T) {
	name, public := payload(&wire.EventObject{Alloc: &alloc.Bundle{
		Alloc: &alloc.Alloc{ID: "a", Job: "j", TaskGroup: "g"},
		Job:   &job.Job{ID: "j", TaskGroups: []*job.TaskGroup{{Name: "g"}}},
	}})
	got, is := public.(*api.Allocation)
	if name != "Allocation" || !is || got.ID != "a" || got.JobID != "j" || got.Job != nil {
		t.Errorf("%s: %+v", name, public)
	}
}

// TestWhatIsRemovedIsSaidToBe: the event of an object that is gone has a mark of that beside what it was last.
func TestWhatIsRemovedIsSaidToBe(t *testing.T) {
	e := event(t, "e", "x")
	if got := object(e); got["Evaluation"] == nil || got["Deleted"] != nil {
		t.Errorf("of one that is there: %s", got)
	}
	e.Removed = true
	if got := object(e); got["Evaluation"] == nil || string(got["Deleted"]) != "true" {
		t.Errorf("of one that is gone: %s", got)
	}
}
