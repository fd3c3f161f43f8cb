package diff

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

func fullJob() *job.Job {
	return &job.Job{
		Namespace: "default",
		ID:        "j",
		Name:      "j",
		Type:      job.TypeService,
		Priority:  50,
		TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Count: 1,
			Networks: []*job.NetworkResource{{
				Mode:         "host",
				DynamicPorts: []job.Port{{Label: "p"}},
			}},
			EphemeralDisk: &job.EphemeralDisk{
				SizeMB: 1,
			},
			RestartPolicy:    &job.RestartPolicy{},
			ReschedulePolicy: &job.ReschedulePolicy{},
			Update:           &job.UpdateStrategy{},
			Volumes: map[string]*job.VolumeRequest{"data": {
				Name:         "data",
				Type:         job.VolumeTypeCSI,
				Source:       "v",
				MountOptions: &job.MountOptions{},
			}},
			Tasks: []*job.Task{{
				Name:          "t",
				Driver:        "exec",
				Config:        map[string]any{"a": 1, "b": []any{map[string]any{"c": "d"}}},
				Lifecycle:     &job.TaskLifecycle{},
				Resources:     &job.Resources{},
				RestartPolicy: &job.RestartPolicy{},
				LogConfig:     &job.LogConfig{},

				CSIPluginConfig: &job.CSIPluginConfig{},
				Templates:       []*job.Template{{}},
				VolumeMounts:    []*job.VolumeMount{{}},
			}},
		}},
	}
}

// alter changes one field to something else.
func alter(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		m.SetMapIndex(reflect.ValueOf("new").Convert(v.Type().Key()), reflect.New(v.Type().Elem()).Elem())
		v.Set(m)
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		} else {
			v.Set(reflect.Zero(v.Type()))
		}
	default:
		return false
	}
	return true
}

// TestEveryFieldOfAJobHasItsConsequence changes one field after another. A field that is added to the model and not
// named here is destructive: what runs is replaced.
func TestEveryFieldOfAJobHasItsConsequence(t *testing.T) {
	harmless := map[string]Change{
		"Job.Priority": InPlace, "Job.AllAtOnce": InPlace, "Job.Datacenters": InPlace, "Job.NodePool": InPlace,
		"Job.Constraints": InPlace,
		"Job.Affinities":  InPlace, "Job.Spreads": InPlace,
		"Job.Version": Same, "Job.SubmitTime": Same, "Job.CreateIndex": Same, "Job.ModifyIndex": Same,
		"Job.JobModifyIndex": Same, "Job.Stable": Same, "Job.Stop": Same,
		"TaskGroup.Count": InPlace, "TaskGroup.Constraints": InPlace, "TaskGroup.Affinities": InPlace,
		"TaskGroup.Spreads":       InPlace,
		"TaskGroup.RestartPolicy": InPlace, "TaskGroup.ReschedulePolicy": InPlace, "TaskGroup.Update": InPlace,
		"TaskGroup.Services": InPlace, "Task.Services": InPlace,
		"TaskGroup.ShutdownDelay": InPlace, "TaskGroup.MaxRunDuration": InPlace,
		"TaskGroup.Disconnect": InPlace,
		"Task.Constraints":     InPlace, "Task.Affinities": InPlace, "Task.RestartPolicy": InPlace,
		"VolumeRequest.Create": InPlace,
	}
	parts := map[string]func(*job.Job) any{
		"Job":           func(j *job.Job) any { return j },
		"TaskGroup":     func(j *job.Job) any { return j.TaskGroups[0] },
		"Task":          func(j *job.Job) any { return j.TaskGroups[0].Tasks[0] },
		"VolumeRequest": func(j *job.Job) any { return j.TaskGroups[0].Volumes["data"] },
		"MountOptions":  func(j *job.Job) any { return j.TaskGroups[0].Volumes["data"].MountOptions },
		"VolumeMount":   func(j *job.Job) any { return j.TaskGroups[0].Tasks[0].VolumeMounts[0] },
		"Resources":     func(j *job.Job) any { return j.TaskGroups[0].Tasks[0].Resources },
		"Port":          func(j *job.Job) any { return &j.TaskGroups[0].Networks[0].DynamicPorts[0] },
		"CSIPlugin":     func(j *job.Job) any { return j.TaskGroups[0].Tasks[0].CSIPluginConfig },
		"Template":      func(j *job.Job) any { return j.TaskGroups[0].Tasks[0].Templates[0] },
		"Lifecycle":     func(j *job.Job) any { return j.TaskGroups[0].Tasks[0].Lifecycle },
	}
	for name, part := range parts {
		typ := reflect.TypeOf(part(fullJob())).Elem()
		for i := range typ.NumField() {
			field := name + "." + typ.Field(i).Name
			if field == "Job.TaskGroups" || field == "TaskGroup.Name" { // the group is another one then
				continue
			}
			j := fullJob()
			if !alter(reflect.ValueOf(part(j)).Elem().Field(i)) {
				t.Fatalf("the test cannot change %s", field)
			}
			want, known := harmless[field]
			if !known {
				want = Destructive
			}
			if got := Compare(fullJob(), j, "g"); got != want {
				t.Errorf("a change of %s is %s, want %s", field, got, want)
			}
		}
	}
	if got := Compare(fullJob(), &job.Job{}, "g"); got != Destructive {
		t.Errorf("a group that is gone is %s", got)
	}
}

func TestWhatACodecDoesToAJobIsNoChange(t *testing.T) {
	a, b := fullJob(), fullJob()
	b.TaskGroups[0].Tasks[0].Config = map[string]any{"a": float64(1), "b": []any{map[string]any{"c": "d"}}}
	b.TaskGroups[0].Meta, b.Constraints = map[string]string{}, []*job.Constraint{}
	if got := Compare(a, b, "g"); got != Same {
		t.Errorf("numbers and empty collections are %s", got)
	}
	b.TaskGroups[0].Tasks[0].Config["b"] = []any{map[string]any{"c": "e"}}
	if got := Compare(a, b, "g"); got != Destructive {
		t.Errorf("a value deep in the configuration is %s", got)
	}
	b.TaskGroups[0].Tasks[0].Config["b"] = "text"
	if got := Compare(a, b, "g"); got != Destructive {
		t.Errorf("another type in the configuration is %s", got)
	}
}

func TestPausesGrowAsTheirFunctionSays(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for function, want := range map[string][]time.Duration{
		"constant":    {10, 10, 10, 10, 10, 10},
		"exponential": {10, 20, 40, 60, 60, 60},
		"fibonacci":   {10, 10, 20, 30, 50, 60},
	} {
		p := &job.ReschedulePolicy{
			Unlimited:     true,
			Delay:         10 * time.Second,
			DelayFunction: function,
			MaxDelay:      time.Minute,
		}
		a, now := &alloc.Alloc{ID: "a", Node: "n", ModifyTime: start.UnixNano()}, start
		for i, w := range want {
			at, d, ok := NextTry(p, a)
			if !ok || d != w*time.Second || !at.Equal(now.Add(d)) {
				t.Fatalf("%s, try %d: %s at %s, %t; want %ds", function, i, d, at, ok, w)
			}
			now = at
			a = &alloc.Alloc{ID: "a", Node: "n", Reschedule: History(a, now, d), ModifyTime: now.UnixNano()}
		}
		// Who lived longer than the ceiling begins anew.
		a.ModifyTime = now.Add(2 * time.Minute).UnixNano()
		if _, d, _ := NextTry(p, a); d != 10*time.Second {
			t.Errorf("%s: after a long life the pause is %s", function, d)
		}
	}
}

func TestLimitedAttemptsAreCountedInTheirInterval(t *testing.T) {
	p := &job.ReschedulePolicy{Attempts: 2, Interval: time.Hour, Delay: time.Second, DelayFunction: "constant"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := &alloc.Alloc{ModifyTime: now.UnixNano()}
	for i := range 2 {
		if _, _, ok := NextTry(p, a); !ok {
			t.Fatalf("attempt %d was refused", i)
		}
		a = &alloc.Alloc{Reschedule: History(a, now, time.Second), ModifyTime: now.UnixNano()}
	}
	if _, _, ok := NextTry(p, a); ok {
		t.Error("a third attempt within the interval")
	}
	a.ModifyTime = now.Add(2 * time.Hour).UnixNano()
	if _, _, ok := NextTry(p, a); !ok {
		t.Error("no attempt after the interval")
	}
	if _, _, ok := NextTry(nil, a); ok {
		t.Error("an attempt without policy")
	}
}

func TestAPauseNeverOverflowsAndHistoryIsBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := &job.ReschedulePolicy{Unlimited: true, Delay: time.Duration(rapid.Int64Range(1, 1<<62).Draw(r, "delay")),
			DelayFunction: rapid.SampledFrom([]string{"constant", "exponential", "fibonacci"}).Draw(r, "function")}
		a := &alloc.Alloc{}
		for range rapid.IntRange(1, 100).Draw(r, "tries") {
			_, d, ok := NextTry(p, a)
			if !ok || d < p.Delay {
				r.Fatalf("pause %s, %t", d, ok)
			}
			a = &alloc.Alloc{Reschedule: History(a, time.Unix(0, 0), d)}
			if len(a.Reschedule) > keptEvents {
				r.Fatalf("%d events", len(a.Reschedule))
			}
		}
	})
}
