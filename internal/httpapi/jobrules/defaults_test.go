package jobrules_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/jobrules"
)

// bare is a job whose author wrote as little as can be.
func bare(kind string) *api.Job {
	return &api.Job{ID: new("j"), Type: &kind, TaskGroups: []*api.TaskGroup{
		{Name: "g", Tasks: []*api.Task{{Name: "t", Driver: "exec"}}},
	}}
}

// Given a batch and a system job whose authors wrote as little as can be, when defaults are filled in and the job is
// shown, then it is whole as in testdata, members without a value left out: the documentation of the jobspec has these
// values.
func TestDefaultsOfEveryTypeAreWhole(t *testing.T) {
	for _, kind := range []string{api.JobTypeBatch, api.JobTypeSystem} {
		j := bare(kind)
		jobrules.Canonicalize(j, "global", "default")
		data, err := json.Marshal(convert.FromJob(convert.ToJob(j), "pending", ""))
		if err != nil {
			t.Fatal(err)
		}
		wanted, err := os.ReadFile("testdata/defaults-" + kind + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(wanted, &want); err != nil {
			t.Fatal(err)
		}
		if got = valued(got); !reflect.DeepEqual(got, want) {
			text, _ := json.MarshalIndent(got, "", "  ")
			t.Errorf("a %s job is\n%s", kind, text)
		}
	}
}

// valued is a value without what is null, empty, false, or zero.
func valued(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			if member = valued(member); member != nil {
				out[name] = member
			}
		}
		return out
	case []any:
		for i := range v {
			v[i] = valued(v[i])
		}
		return v
	case string, float64, bool:
		if reflect.ValueOf(v).IsZero() {
			return nil
		}
	}
	return v
}

// Given a limited policy, when its delays do not end within its interval, then it is refused with both; and a batch job
// that is to be placed anew without an end has no number of attempts.
func TestAttemptsFitIntoTheirInterval(t *testing.T) {
	policy := func(attempts int, function string, longest, interval time.Duration) *api.ReschedulePolicy {
		return &api.ReschedulePolicy{
			Attempts:      &attempts,
			Delay:         new(10 * time.Second),
			DelayFunction: &function,
			MaxDelay:      &longest,
			Interval:      &interval,
			Unlimited:     new(false),
		}
	}
	for name, c := range map[string]struct {
		policy *api.ReschedulePolicy
		fits   bool
	}{
		"constant":            {policy(3, "constant", 0, 30*time.Second), true},
		"constant, not":       {policy(4, "constant", 0, 39*time.Second), false},
		"exponential":         {policy(3, "exponential", time.Hour, 70*time.Second), true},
		"exponential, not":    {policy(3, "exponential", time.Hour, 69*time.Second), false},
		"exponential, capped": {policy(3, "exponential", 15*time.Second, 40*time.Second), true},
		"fibonacci":           {policy(4, "fibonacci", time.Hour, 70*time.Second), true},
		"fibonacci, not":      {policy(4, "fibonacci", time.Hour, 69*time.Second), false},
		"very many":           {policy(1<<40, "exponential", time.Hour, 24*time.Hour), false},
		"very many, capped":   {policy(1<<40, "fibonacci", 1, 1<<62), true},
		"beyond all bounds":   {policy(200, "exponential", 0, 1<<63-1), false},
	} {
		j := bare(api.JobTypeService)
		j.TaskGroups[0].ReschedulePolicy = c.policy
		jobrules.Canonicalize(j, "global", "default")
		errs := jobrules.Validate(j)
		if c.fits != (len(errs) == 0) {
			t.Errorf("%s: %v", name, errs)
		}
		if !c.fits && (len(errs) != 1 || !strings.Contains(errs[0].Error(), "do not fit into the interval")) {
			t.Errorf("%s is refused without the reason: %v", name, errs)
		}
	}
	endless := bare(api.JobTypeBatch)
	endless.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: new(true)}
	jobrules.Canonicalize(endless, "global", "default")
	if errs := jobrules.Validate(endless); len(errs) > 0 {
		t.Errorf("a batch job without an end: %v", errs)
	}
}
