package launches_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/api"
	"berth/internal/httpapi/convert/launches"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// Given a request to dispatch with all that it can say, when it is handed on, then nothing of it is lost, and the job
// is the one of the path.
func TestADispatchIsHandedOnWhole(t *testing.T) {
	in := &api.JobDispatchRequest{
		JobID:            "other",
		Payload:          []byte("p"),
		Meta:             map[string]string{"k": "v"},
		IdPrefixTemplate: "pre",
		Priority:         7,
	}
	got := launches.ToDispatch(in, "ns", "j", "token")
	want := &wire.JobDispatchRequest{
		Namespace:        "ns",
		Job:              "j",
		Payload:          in.Payload,
		Meta:             in.Meta,
		IdempotencyToken: "token",
		IDPrefix:         "pre",
		Priority:         7,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	v := reflect.ValueOf(got).Elem()
	for i := range v.NumField() {
		if f := v.Type().Field(i); v.Field(i).IsZero() && !f.Anonymous {
			t.Errorf("a request's %s is said by nothing", f.Name)
		}
	}
}

// Given what became of a launch, when it is answered, then each member is where clients look for it.
func TestAnswersOfLaunches(t *testing.T) {
	out := &wire.JobLaunchReply{Child: "p/dispatch-1", Eval: "e", EvalCreateIndex: 5, JobCreateIndex: 4}
	out.Index = 6
	index, body := launches.Dispatched(out)
	if d := cmp.Diff(&api.JobDispatchResponse{
		DispatchedJobID: "p/dispatch-1",
		EvalID:          "e",
		EvalCreateIndex: 5,
		JobCreateIndex:  4,
		Index:           6,
	}, body); d != "" || index != 6 {
		t.Error(index, d)
	}
	index, body = launches.Forced(out)
	if d := cmp.Diff(&api.PeriodicForceResponse{EvalID: "e", EvalCreateIndex: 5, Index: 6}, body); d != "" ||
		index != 6 {
		t.Error(index, d)
	}
	view := &wire.JobView{Job: &job.Job{Payload: []byte("p")}}
	view.Children.Pending = 1
	view.Children.Running = 2
	view.Children.Dead = 3
	if d := cmp.Diff(&api.JobChildrenSummary{Pending: 1, Running: 2, Dead: 3}, launches.Counts(view)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&api.JobDispatchPayload{Payload: []byte("p")}, launches.Payload(view)); d != "" {
		t.Error(d)
	}
}

// Given jobs with times and without, when it is asked for the next one, then it is said in UTC, and of a job that is
// stopped, switched off or launched by nobody nothing is.
func TestTheNextLaunchIsSaidInUTC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time begins at midnight UTC of 2000-01-01
		at := func(edit func(*job.Job)) *time.Time {
			j := &job.Job{Type: job.TypeBatch, SubmitTime: time.Now().UnixNano()}
			j.Periodic = &job.PeriodicConfig{Enabled: true, Specs: []string{"30 4 * * *"}, TimeZone: "Asia/Tokyo"}
			edit(j)
			return launches.Next(j)
		}
		want := time.Date(2000, 1, 1, 19, 30, 0, 0, time.UTC)
		if got := at(func(*job.Job) {}); got == nil || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("the next launch is %v, want %v", got, want)
		}
		for name, edit := range map[string]func(*job.Job){
			"stopped":      func(j *job.Job) { j.Stop = true },
			"switched off": func(j *job.Job) { j.Periodic.Enabled = false },
			"not periodic": func(j *job.Job) { j.Periodic = nil },
		} {
			if got := at(edit); got != nil {
				t.Errorf("a job that is %s is launched at %v", name, got)
			}
		}
	})
}
