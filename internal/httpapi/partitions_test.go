package httpapi_test

import (
	"strings"
	"testing"

	"berth/api"
)

// Given a cluster, when a namespace is written, read, used and deleted over the API, then each answer is the one that
// clients know, what it lets jobs use holds where they are submitted, planned and checked, and what is not built is
// refused by its name.
func TestANamespaceLives(t *testing.T) {
	w := newWorld(t)
	w.must("PUT", "/v1/node/pools", map[string]any{"Name": "gpu", "NodeIdentityTTL": ""})
	says := map[string]any{
		"Name": "shop", "Description": "the shop", "Meta": map[string]any{"owner": "me"},
		"Capabilities":          map[string]any{"EnabledTaskDrivers": []string{"exec"}},
		"NodePoolConfiguration": map[string]any{"Default": "gpu", "Allowed": []string{}},
	}
	if a := w.must("PUT", "/v1/namespace", says); len(a.body) > 0 || a.index(t) == 0 {
		t.Errorf("the answer of a write is %q, at %d", a.body, a.index(t))
	}
	var n api.Namespace
	a := w.get("/v1/namespace/shop", &n)
	if n.Name != "shop" || n.Meta["owner"] != "me" || n.Capabilities.EnabledTaskDrivers[0] != "exec" ||
		n.NodePoolConfiguration.Default != "gpu" || n.NodePoolConfiguration.Allowed == nil || len(n.Hash) != 32 ||
		n.CreateIndex == 0 || a.index(t) != n.ModifyIndex {
		t.Errorf("it is %+v at %d", n, a.index(t))
	}
	before := n
	w.must("PUT", "/v1/namespace/shop", n) // as it was read
	if w.get("/v1/namespace/shop", &n); n.ModifyIndex != before.ModifyIndex {
		t.Errorf("what was read and is written back changes it: %+v, was %+v", n, before)
	}
	for _, c := range []struct {
		query string
		want  string
	}{{"prefix=s", "shop"}, {"filter=Meta.owner+%3D%3D+%22me%22", "shop"}, {"per_page=1", "berth"},
		{"per_page=1&next_token=shop", "shop"}} {
		var list []api.Namespace
		if w.get("/v1/namespaces?"+c.query, &list); len(list) != 1 || list[0].Name != c.want {
			t.Errorf("%s: %+v", c.query, list)
		}
	}

	j := webJob("web")
	j["Namespace"], j["NodePool"] = "shop", "default"
	task(j)["Driver"] = "raw_exec"
	for _, path := range []string{"/v1/jobs", "/v1/job/web/plan?namespace=shop"} {
		a := w.try("PUT", path, map[string]any{"Job": j})
		for _, want := range []string{`node pool "default" is not allowed in namespace "shop" (allowed are gpu)`,
			`driver "raw_exec" is not allowed in namespace "shop"`} {
			if a.status != 400 || !strings.Contains(string(a.body), want) {
				t.Errorf("%s: %d %s, want %q", path, a.status, a.body, want)
			}
		}
	}
	var v api.JobValidateResponse
	w.must("PUT", "/v1/validate/job", map[string]any{"Job": j}).into(t, &v)
	if len(v.ValidationErrors) != 2 {
		t.Errorf("validate finds %q", v.ValidationErrors)
	}
	task(j)["Driver"] = "exec"
	delete(j, "NodePool")
	w.must("PUT", "/v1/jobs", map[string]any{"Job": j})
	var job api.Job
	if w.get("/v1/job/web?namespace=shop", &job); *job.NodePool != "gpu" {
		t.Errorf("the job is in pool %q", *job.NodePool)
	}
	var plan api.JobPlanResponse
	w.must("PUT", "/v1/job/web/plan?namespace=shop", map[string]any{"Job": j, "Diff": true}).into(t, &plan)
	if plan.Diff == nil || plan.Diff.Type != "None" {
		t.Errorf("the same job differs: %+v", plan.Diff)
	}
	if m := plan.FailedTGAllocs["g"]; m == nil || m.NodePool != "gpu" || m.NodesInPool != 0 {
		t.Errorf("why nothing can be placed: %+v", plan.FailedTGAllocs)
	}

	for _, c := range []struct {
		method, path string
		body         any
		status       int
		text         string
	}{
		{"DELETE", "/v1/namespace/shop", nil, 500, "has non-terminal jobs: web"},
		{"DELETE", "/v1/namespace/nope", nil, 500, "namespace not found"},
		{"DELETE", "/v1/namespace/default", nil, 400, "every cluster has it"},
		{"PUT", "/v1/namespace/berth", map[string]any{}, 400, "nobody changes it"},
		{"PUT", "/v1/namespace/shop", map[string]any{"Name": "other"}, 400,
			`"other" of the body is not "shop" of the path`},
		{"PUT", "/v1/namespace", map[string]any{"Name": "q", "Quota": "small"}, 501, "Quota is not built"},
		{"PUT", "/v1/namespace", map[string]any{"Name": "q", "VaultConfiguration": map[string]any{"Default": "x"}}, 501,
			"VaultConfiguration is not built"},
		{"PUT", "/v1/namespace", map[string]any{
			"Name": "q", "ConsulConfiguration": map[string]any{"Denied": []string{"x"}},
		}, 501, "ConsulConfiguration is not built"},
		{"PUT", "/v1/namespace", map[string]any{"Name": "q", "RequiredExtraClaims": map[string]any{"a": "b"}}, 501,
			"RequiredExtraClaims is not built"},
		{"GET", "/v1/namespace/nope", nil, 404, "Namespace not found"},
		{"PUT", "/v1/node/pools", map[string]any{"Name": "q", "NodeIdentityTTL": "24h"}, 501,
			"NodeIdentityTTL is not built"},
		{"PUT", "/v1/node/pool/q", map[string]any{
			"SchedulerConfiguration": map[string]any{"SchedulerAlgorithm": "spread"},
		}, 501, "SchedulerConfiguration is not built"},
		{"DELETE", "/v1/node/pool/gpu", nil, 500, "has non-terminal jobs: -namespace shop web"},
		{"DELETE", "/v1/node/pool/all", nil, 400, "every cluster has it"},
		{"DELETE", "/v1/node/pool/nope", nil, 404, "node pool not found"},
	} {
		if a := w.try(c.method, c.path, c.body); a.status != c.status || !strings.Contains(string(a.body), c.text) {
			t.Errorf("%s %s: %d %s, want %d %q", c.method, c.path, a.status, a.body, c.status, c.text)
		}
	}
	lost := webJob("lost")
	lost["NodePool"] = "nope"
	if a := w.try("PUT", "/v1/jobs", map[string]any{"Job": lost}); a.status != 500 ||
		!strings.Contains(string(a.body), `node pool "nope" does not exist (`) {
		t.Errorf("a job of a pool that is not there: %d %s", a.status, a.body)
	}
	var found api.SearchResponse
	w.must("PUT", "/v1/search", map[string]any{"Prefix": "g", "Context": "node_pools"}).into(t, &found)
	if len(found.Matches["node_pools"]) != 1 {
		t.Errorf("a search for pools finds %v", found.Matches)
	}
	w.must("PUT", "/v1/search", map[string]any{"Prefix": "sh", "Context": "all"}).into(t, &found)
	if len(found.Matches["namespaces"]) != 1 {
		t.Errorf("a search finds %v", found.Matches)
	}

	w.must("DELETE", "/v1/job/web?namespace=shop&purge=true", nil)
	for w.try("DELETE", "/v1/namespace/shop", nil).status != 200 { // the evaluation of its end is under way
		w.get("/v1/namespace/shop", &n)
	}
	w.must("DELETE", "/v1/node/pool/gpu", nil)
	if a := w.try("GET", "/v1/namespace/shop", nil); a.status != 404 {
		t.Errorf("it is still there: %d %s", a.status, a.body)
	}
}
