package httpapi_test

import (
	"strings"
	"testing"

	"berth/api"
)

// Given a job in which the rules of the surface find something and the servers something else, when it is validated,
// registered or planned, then one answer has all of it, and nothing twice.
func TestOneAnswerHasWhatTheRulesAndWhatTheServersFind(t *testing.T) {
	r := newRig(t)
	j := webJob("wrong")
	j["Priority"], j["NodePool"] = 500, "gpu"
	group(j)["Volumes"] = map[string]any{
		"data": map[string]any{"Type": "csi", "Source": "db", "AccessMode": "mine", "AttachmentMode": "file-system",
			"Create": map[string]any{"PluginID": "nobody", "CapacityMin": 20, "CapacityMax": 10}},
		"odd": map[string]any{"Type": "csi", "Source": "a/b", "AccessMode": "single-node-writer",
			"AttachmentMode": "file-system", "Create": map[string]any{"PluginID": "nobody"}},
	}
	task(j)["Templates"] = []any{map[string]any{"DestPath": "local/x", "EmbeddedTmpl": "{{ nosuch }}"}}
	task(j)["Resources"] = map[string]any{"CPU": 0, "MemoryMB": 5}
	task(j)["Vault"] = map[string]any{"Role": "x"}
	helper := map[string]any{"Name": "helper", "Driver": "docker"}
	group(j)["Tasks"] = append(group(j)["Tasks"].([]any), helper, map[string]any{"Name": "bare"})
	wants := []string{
		"job priority must be between 1 and 100", "minimum CPU value is 1", "minimum MemoryMB value is 10",
		"vault is not built yet", "CSI volumes must have an access mode",
		`volume "odd": source "a/b"`, `task "bare": missing task driver`,
		"log storage (300 MB) must be less",                       // the rules
		`node pool "gpu" does not exist`, `"nobody" is not known`, // the servers
		"capacity_max (10 B) must be at least", `function "nosuch"`,
	}
	var v api.JobValidateResponse
	r.must("PUT", "/v1/validate/job", map[string]any{"Job": j}).into(t, &v)
	if len(v.ValidationErrors) != len(wants) {
		t.Errorf("%d findings, want %d:\n%s", len(v.ValidationErrors), len(wants),
			strings.Join(v.ValidationErrors, "\n"))
	}
	for _, warning := range []string{`driver "docker"`} {
		if strings.Count(v.Warnings, warning) != 1 {
			t.Errorf("warnings without %s: %s", warning, v.Warnings)
		}
	}
	if strings.Contains(v.Warnings, "bare") {
		t.Errorf("what is an error is a warning, too: %s", v.Warnings)
	}
	said := map[string]string{"/v1/validate/job": v.Error}
	for _, path := range []string{"/v1/jobs", "/v1/job/wrong", "/v1/job/wrong/plan"} {
		a := r.try("PUT", path, map[string]any{"Job": j})
		if a.status != 400 || !strings.HasPrefix(string(a.body), "12 errors occurred:") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		said[path] = string(a.body)
	}
	for path, text := range said {
		for _, want := range wants {
			if strings.Count(text, want) != 1 {
				t.Errorf("%s: %q is not there once:\n%s", path, want, text)
			}
		}
	}
}
