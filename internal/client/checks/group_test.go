package checks_test

import (
	"testing"
	"time"

	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// TestACheckOfAGroupBeginsWithTheLastOfItsTasks: given a group whose service is no task's, when one of its tasks is
// started again, then what was found before is not said of the run that begins, and its grace counts from then.
func TestACheckOfAGroupBeginsWithTheLastOfItsTasks(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.set(func() {
			r.runs("a")
			s := r.allocs["a"]
			g := s.Bundle.Job.TaskGroups[0]
			g.Services, g.Tasks[0].Services = g.Tasks[0].Services, nil
			g.Tasks = append(g.Tasks, &job.Task{Name: "other"})
			s.Tasks["other"] = &alloc.TaskState{State: alloc.TaskRunning, StartedAt: time.Now()}
		})
		time.Sleep(time.Second)
		if all := r.keeper.Of("a"); len(all) != 2 || all[0].Status != service.Success {
			t.Fatalf("first: %+v", all)
		}
		r.set(func() {
			s := r.allocs["a"]
			s.Tasks = map[string]*alloc.TaskState{
				"t":     s.Tasks["t"],
				"other": {State: alloc.TaskRunning, StartedAt: time.Now()},
			}
			r.allocs["a"] = s
		})
		if all := r.keeper.Of("a"); all[0].Status != service.Pending {
			t.Errorf("the run that has just begun is said to be %+v", all[0])
		}
	})
}
