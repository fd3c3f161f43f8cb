package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/api"
)

// Given five jobs, when they are listed in pages of two, then every one is seen once, in order, forwards and backwards,
// also when the job that begins the next page goes away in between.
func TestPagesShowEverythingOnce(t *testing.T) {
	r := newRig(t)
	want := []string{"a", "b", "b2", "c", "d"}
	for _, id := range want {
		r.submit(webJob(id))
	}
	pages := func(query string) (got []string) {
		for token := ""; ; {
			var page []*api.JobListStub
			a := r.get("/v1/jobs?per_page=2&next_token="+url.QueryEscape(token)+query, &page)
			for _, j := range page {
				got = append(got, j.ID)
			}
			if token = a.header.Get("X-Nomad-NextToken"); token == "" {
				return got
			}
		}
	}
	if got := pages(""); !slices.Equal(got, want) {
		t.Errorf("forwards %v", got)
	}
	slices.Reverse(want)
	if got := pages("&reverse=true"); !slices.Equal(got, want) {
		t.Errorf("backwards %v", got)
	}
	if got := pages("&filter=" + url.QueryEscape(`ID matches "^b"`)); !slices.Equal(got, []string{"b", "b2"}) {
		t.Errorf("filtered %v", got)
	}
	var page []*api.JobListStub
	token := r.get("/v1/jobs?per_page=2", &page).header.Get("X-Nomad-NextToken")
	r.must("DELETE", "/v1/job/b2?purge=true", nil)
	if r.get("/v1/jobs?per_page=2&next_token="+token, &page); len(page) != 2 || page[0].ID != "c" {
		t.Errorf("after the first of the page went: %+v", page)
	}
	for _, kind := range []string{"allocations", "evaluations"} {
		var all, one []struct {
			ID          string
			CreateIndex uint64
		}
		r.get("/v1/"+kind, &all)
		if !slices.IsSortedFunc(all, func(a, b struct {
			ID          string
			CreateIndex uint64
		}) int {
			return int(a.CreateIndex) - int(b.CreateIndex)
		}) {
			t.Errorf("%s are not in the order of their creation", kind)
		}
		seen := 0
		for token := ""; ; seen++ {
			token = r.get(fmt.Sprintf("/v1/%s?per_page=1&next_token=%s", kind, token),
				&one).header.Get("X-Nomad-NextToken")
			if one[0].ID != all[seen].ID {
				t.Fatalf("%s: page %d shows %s", kind, seen, one[0].ID)
			}
			if token == "" {
				break
			}
		}
		if seen+1 != len(all) || len(all) < 4 {
			t.Errorf("%s: %d pages of %d", kind, seen+1, len(all))
		}
	}
}

// TestHowFarAJobIsIsReadAtOnce: given jobs that run, that fail and that have no place, when it is asked how far they
// are, then the answer has what the routes around it have, and of the evaluations those that are not over.
func TestHowFarAJobIsIsReadAtOnce(t *testing.T) {
	w := newWorld(t)
	for id, open := range map[string]int{"web": 0, "fails": 1, "huge": 1} {
		path := "/v1/job/" + id
		var job *api.Job
		var allocs []*api.AllocationListStub
		var evals []*api.Evaluation
		var deployment *api.Deployment
		w.get(path, &job)
		w.get(path+"/allocations", &allocs)
		w.get(path+"/evaluations", &evals)
		w.get(path+"/deployment", &deployment)
		evals = slices.DeleteFunc(evals, func(e *api.Evaluation) bool { return e.Status == "complete" })
		var got *api.JobRollout
		w.get(path+"/rollout", &got)
		if len(got.Evaluations) != open || got.Job.Status == nil || (id == "huge") == (got.Deployment != nil) {
			t.Errorf("%s is %+v", id, got)
		}
		want := &api.JobRollout{Job: job, Allocations: allocs, Evaluations: evals, Deployment: deployment}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: the answer differs from those of the other routes (-want +got):\n%s", id, d)
		}
	}
	if a := w.try("GET", "/v1/job/none/rollout", nil); a.status != http.StatusNotFound {
		t.Errorf("of a job that is not there it is %+v", a)
	}
}

// Given the filters that unmodified clients send, when they are sent, then they see the full job.
func TestFiltersSeeTheWholeObject(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		path, filter string
		want         int
	}{
		{"/v1/jobs", `ParentID == "" and ParameterizedJob is not nil`, 0},
		{"/v1/jobs", `Periodic is not nil`, 0},
		{"/v1/jobs", `Periodic is nil`, 3},
		{"/v1/jobs", `Meta["team"] == "a"`, 1},
		{"/v1/jobs", `ID matches "^(web|huge)$"`, 2},
		{"/v1/jobs", `Type == "service" and Priority == 50`, 3},
		{"/v1/jobs", `"*" in Datacenters`, 3},
		{"/v1/allocations", `ClientStatus == "running"`, 1},
		{"/v1/evaluations", `JobID == "web"`, 1},
		{"/v1/job/fails/evaluations", `Status == "complete"`, 2},
		{"/v1/job/fails/evaluations", `Status == "pending"`, 1},
		{"/v1/nodes", `Attributes["os.name"] == "debian"`, 1},
		{"/v1/nodes", `Status != "ready"`, 0},
		{"/v1/volumes?type=csi", `PluginID == "disk"`, 1},
		{"/v1/plugins?type=csi", `Provider matches "example"`, 1},
	} {
		var list []any
		sep := "?"
		if strings.Contains(c.path, "?") {
			sep = "&"
		}
		if w.get(c.path+sep+"filter="+url.QueryEscape(c.filter), &list); len(list) != c.want {
			t.Errorf("%s %s: %d of them, want %d", c.path, c.filter, len(list), c.want)
		}
	}
}

// Given ids, when they are asked for by prefix, then upper case, hyphens and odd lengths are all the same.
func TestPrefixesOfIDs(t *testing.T) {
	w := newWorld(t)
	for _, n := range []int{1, 2, 7, 8, 9, 12, 36} {
		for kind, id := range map[string]string{"allocations": w.alloc, "evaluations": w.eval,
			"nodes": string(w.node.id.Node)} {
			for _, p := range []string{id[:n], strings.ToUpper(id[:n]), strings.ReplaceAll(id[:n], "-", "")} {
				var list []struct{ ID string }
				w.get("/v1/"+kind+"?prefix="+p, &list)
				if !slices.ContainsFunc(list, func(x struct{ ID string }) bool { return x.ID == id }) {
					t.Errorf("%s with prefix %q: %v", kind, p, list)
				}
			}
		}
	}
	for _, kind := range []string{"allocations", "evaluations", "nodes", "deployments"} {
		var none []any
		if w.get("/v1/"+kind+"?prefix=zz", &none); len(none) > 0 {
			t.Errorf("%s that begin with what is no digit: %v", kind, none)
		}
	}
	var jobs []*api.JobListStub
	if w.get("/v1/jobs?prefix=we", &jobs); len(jobs) != 1 || jobs[0].JobSummary == nil ||
		jobs[0].JobSummary.Namespace != "default" || jobs[0].Meta != nil {
		t.Errorf("jobs we*: %+v", jobs)
	}
	if w.get("/v1/jobs?prefix=we&meta=true", &jobs); jobs[0].Meta["team"] != "a" {
		t.Errorf("with meta: %+v", jobs[0])
	}
	if w.get("/v1/jobs?namespace=*", &jobs); len(jobs) != 4 { // one is the plugin's
		t.Errorf("%d jobs in all namespaces", len(jobs))
	}
	var found api.SearchResponse
	w.must("PUT", "/v1/search", map[string]any{"Prefix": w.alloc[:4], "Context": "all"}).into(t, &found)
	if !slices.Contains(found.Matches["allocs"], w.alloc) {
		t.Errorf("search found %v", found.Matches)
	}
}
