package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/httpapi/params"
)

// Given jobs beyond a bound, when they are registered or planned, then the answer is 400 and names group, value and
// bound; when they are validated, the finding is listed; and nothing is stored.
func TestJobsBeyondABoundAreRefused(t *testing.T) {
	r := newRig(t)
	constraints := make([]any, 10_000)
	for i := range constraints {
		constraints[i] = map[string]any{"LTarget": "${attr.kernel.name}", "Operand": "regexp",
			"RTarget": fmt.Sprintf("l.*%d", i)}
	}
	for name, c := range map[string]struct {
		change func(map[string]any)
		says   string
	}{
		"count": {func(j map[string]any) {
			group(j)["Count"] = 2_000_000_000
		}, `group "g": count 2000000000 exceeds the bound of 100000 allocs of one job`},
		"constraints": {func(j map[string]any) {
			j["Constraints"] = constraints
		}, "number of constraints 10000 exceeds the bound of 1000 constraints of one job"},
		"a sum of memory below nothing": {func(j map[string]any) {
			task(j)["Resources"] = map[string]any{"CPU": 1, "MemoryMB": 1 << 62}
		}, `group "g": task "t": memory 4611686018427387904 exceeds the bound of 1073741824 MiB`},
		"logs whose size is nothing": {func(j map[string]any) {
			task(j)["LogConfig"] = map[string]any{"MaxFiles": 1 << 32, "MaxFileSizeMB": 1}
			group(j)["EphemeralDisk"] = map[string]any{"SizeMB": 1 << 30}
		}, `group "g": task "t": max_files of logs 4294967296 exceeds the bound of 1048576 files`},
	} {
		t.Run(name, func(t *testing.T) {
			j := webJob("big")
			c.change(j)
			for _, path := range []string{"/v1/jobs", "/v1/job/big", "/v1/job/big/plan"} {
				if a := r.try("PUT", path, map[string]any{"Job": j}); a.status != http.StatusBadRequest ||
					!strings.Contains(string(a.body), c.says) {
					t.Errorf("%s: %d %s", path, a.status, a.body)
				}
			}
			var v api.JobValidateResponse
			r.must("PUT", "/v1/validate/job", map[string]any{"Job": j}).into(t, &v)
			if len(v.ValidationErrors) != 1 || !strings.Contains(v.ValidationErrors[0], c.says) {
				t.Errorf("validation: %+v", v)
			}
			if a := r.try("GET", "/v1/job/big", nil); a.status != http.StatusNotFound {
				t.Errorf("it was stored: %d %s", a.status, a.body)
			}
		})
	}
}

// Given bodies that nest as deep as they may, when they are stored, then every list and the node that gets them can
// read them; one level more is refused, where anything can be nested.
func TestWhatNestsTooDeepIsRefused(t *testing.T) {
	r := newRig(t)
	deep := func(levels int) any {
		var v any = "end"
		for range levels {
			v = map[string]any{"a": v}
		}
		return v
	}
	const above = 5 // the body, Job, TaskGroups, the group, Scaling
	for name, put := range map[string]func(j map[string]any, levels int){
		"a policy": func(j map[string]any, levels int) {
			group(j)["Scaling"] = map[string]any{"Min": 0, "Max": 3, "Policy": deep(levels)}
		},
		"a config": func(j map[string]any, levels int) {
			task(j)["Driver"] = "elsewhere"
			task(j)["Config"] = deep(levels - 1) // within Tasks and the task
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := webJob("deep")
			put(j, params.MaxDepth-above)
			r.must("PUT", "/v1/jobs", map[string]any{"Job": j})
			for _, path := range []string{"/v1/jobs", "/v1/allocations", "/v1/job/deep", "/v1/job/deep/allocations",
				"/v1/job/deep/versions", "/v1/scaling/policies"} {
				r.must("GET", path, nil)
			}
			j = webJob("deeper")
			put(j, params.MaxDepth-above+1)
			a := r.try("PUT", "/v1/jobs", map[string]any{"Job": j})
			if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "more than 40 deep") {
				t.Errorf("one level more: %d %s", a.status, a.body)
			}
		})
	}
	meta := map[string]any{"Count": 1, "Target": map[string]any{"Group": "g"}, "Meta": deep(params.MaxDepth)}
	if a := r.try("PUT", "/v1/job/deep/scale", meta); a.status != http.StatusBadRequest {
		t.Errorf("meta of a scaling: %d %s", a.status, a.body)
	}
}
