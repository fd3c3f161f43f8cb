package httpapi_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/model/node"
)

// Given the job files of all kinds, when each is registered as its JSON, shown, and registered as it was shown, then
// nothing has changed: no new version, and no difference in a plan.
func TestAJobThatWasShownComesBackUnchanged(t *testing.T) {
	files, err := filepath.Glob("../../jobspec/testdata/jobs/*.json")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d job files: %v", len(files), err)
	}
	r := newRigWith(t, func(n *node.Node) {
		n.Attributes["driver.raw_exec"] = "1"
		n.Drivers["raw_exec"] = &node.Driver{Detected: true, Healthy: true}
	})
	r.must("PUT", "/v1/node/pools", map[string]any{"Name": "fast"})
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var written map[string]any
			if err := json.Unmarshal(raw, &written); err != nil {
				t.Fatal(err)
			}
			name, _ := written["ID"].(string)
			id := url.PathEscape(name)
			if got := r.try("PUT", "/v1/jobs", map[string]any{"Job": written}); got.status != 200 {
				t.Fatalf("registered: %d %s", got.status, got.body)
			}
			var shown map[string]any
			r.must("GET", "/v1/job/"+id, nil).into(t, &shown)
			var plan api.JobPlanResponse
			r.must("PUT", "/v1/job/"+id+"/plan", map[string]any{"Job": shown, "Diff": true}).into(t, &plan)
			if plan.Diff.Type != "None" {
				t.Errorf("a plan of what was shown differs: %+v", plan.Diff)
			}
			r.must("PUT", "/v1/jobs", map[string]any{"Job": shown})
			var again map[string]any
			r.must("GET", "/v1/job/"+id, nil).into(t, &again)
			for _, m := range slices.Sorted(maps.Keys(shown)) {
				before, _ := json.Marshal(shown[m])
				after, _ := json.Marshal(again[m])
				// Of the servers' own words about it, which an evaluation changes.
				if m != "ModifyIndex" && m != "Status" && m != "StatusDescription" && string(before) != string(after) {
					t.Errorf("%s was %s, is %s", m, before, after)
				}
			}
		})
	}
}
