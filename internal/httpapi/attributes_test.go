package httpapi_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/internal/model/node"
	"berth/jobspec"
	"berth/jobspec/support"
)

// shownOtherwise are the members that servers show in another form than they are written in, or not, with the reason.
var shownOtherwise = map[string]string{
	"TaskGroups[].Consul": "there is one Consul, and who says so says nothing",
	"TaskGroups[].Tasks":  "the servers add the proxies of a mesh behind those that are written",

	"TaskGroups[].Tasks[].ScalingPolicies[].Type": "the API's word for mem is vertical_mem",
}

// unwritten are the attributes that no job file has to set, with the reason.
var unwritten = map[string]string{
	"group.consul":                       shownOtherwise["TaskGroups[].Consul"],
	"task.consul":                        shownOtherwise["TaskGroups[].Consul"],
	"group.max_client_disconnect":        "the old form of lost_after",
	"group.stop_after_client_disconnect": "the old form of stop_on_client_after",
	"group.prevent_reschedule_on_lost":   "the old form of replace",
	"group.migrate":                      "nothing but its defaults is taken",
	"job.migrate":                        "nothing but its defaults is taken",
	"task.kind":                          "servers write it",
}

// Given job files that together set every attribute that there is, when each is registered and shown, then each
// attribute is shown with the value that was written.
func TestEveryAttributeIsShownAsItWasWritten(t *testing.T) {
	files, err := filepath.Glob("../../jobspec/testdata/jobs/*.json")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d job files: %v", len(files), err)
	}
	r := newRigWith(t, func(n *node.Node) {
		n.Attributes["driver.raw_exec"] = "1"
		n.Drivers["raw_exec"] = &node.Driver{Detected: true, Healthy: true}
	})
	r.must("PUT", "/v1/node/pools", map[string]any{"Name": "fast"})
	seen := map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var written, shown map[string]any
		if err := json.Unmarshal(raw, &written); err != nil {
			t.Fatal(err)
		}
		if got := r.try("PUT", "/v1/jobs", map[string]any{"Job": written}); got.status != 200 {
			t.Fatalf("%s: %d %s", file, got.status, got.body)
		}
		r.must("GET", "/v1/job/"+url.PathEscape(written["ID"].(string)), nil).into(t, &shown)
		for _, member := range []string{"Update", "Reschedule"} {
			seen[member] = seen[member] || written[member] != nil
		}
		differs(t, filepath.Base(file), "", inGroups(written), shown, seen)
	}
	refused := func(path string) bool {
		rules := slices.Concat(support.NotBuilt(), support.WithoutEffect())
		return slices.ContainsFunc(rules, func(r support.Rule) bool {
			below, ok := strings.CutPrefix(path, r.Path)
			return ok && (below == "" || strings.HasPrefix(below, "[]") || strings.HasPrefix(below, "."))
		})
	}
	blocks := map[string]bool{} // "block.attribute": in which of its places it is set is the same to it
	for _, e := range jobspec.JobEntries() {
		name := e.In[strings.LastIndex(e.In, "/")+1:] + "." + e.Name
		if e.Path != "" && !refused(e.Path) {
			blocks[name] = blocks[name] || seen[e.Path]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		if blocks[name] == (unwritten[name] != "") {
			t.Errorf("%s is set by a job file: %t; left out for a reason: %q", name, blocks[name], unwritten[name])
		}
	}
	t.Logf("%d attributes and blocks, %d job files", len(blocks), len(files))
}

// inGroups moves what a job says for all its groups to each of them, which is where it is shown.
func inGroups(job map[string]any) map[string]any {
	for member, ofGroup := range map[string]string{"Update": "Update", "Reschedule": "ReschedulePolicy"} {
		for _, g := range job["TaskGroups"].([]any) {
			of := map[string]any{}
			all, _ := job[member].(map[string]any)
			own, _ := g.(map[string]any)[ofGroup].(map[string]any)
			maps.Copy(of, all)
			maps.DeleteFunc(own, func(_ string, v any) bool { return v == nil })
			maps.Copy(of, own)
			if len(of) > 0 {
				g.(map[string]any)[ofGroup] = of
			}
		}
		delete(job, member)
	}
	return job
}

// differs complains of what is written and shown otherwise, and notes the paths of what is written. What is empty is
// not written.
func differs(t *testing.T, file, path string, written, shown any, seen map[string]bool) {
	t.Helper()
	if path == "TaskGroups[].Consul" {
		return
	}
	switch w := written.(type) {
	case nil:
		return
	case map[string]any:
		s, _ := shown.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(w)) {
			below := strings.TrimPrefix(path+"."+k, ".")
			if path == "TaskGroups[].Volumes" || strings.HasSuffix(path, ".EnvoyGatewayBindAddresses") {
				below = path + "[]" // by name
			}
			differs(t, file, below, w[k], s[k], seen)
		}
		seen[path] = true
		return
	case []any:
		s, _ := shown.([]any)
		if len(s) != len(w) && (shownOtherwise[path] == "" || len(s) < len(w)) {
			t.Errorf("%s: %s has %d members, shown are %d", file, path, len(w), len(s))
			return
		}
		for i := range w {
			differs(t, file, path+"[]", w[i], s[i], seen)
		}
		seen[path] = true
		return
	case string:
		if w == "" {
			return
		}
	case float64:
		if w == 0 {
			return
		}
	}
	seen[path] = true
	seen[strings.Replace(path, "ReservedPorts[]", "DynamicPorts[]", 1)] = true // written alike
	if shownOtherwise[path] == "" && !reflect.DeepEqual(written, shown) {
		t.Errorf("%s: %s is %v, shown is %v", file, path, written, shown)
	}
}
