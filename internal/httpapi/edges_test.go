package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/api"
)

// Given what is looked for and is not there, when a client asks for it, then the answer has an index to wait on, and
// who waits for a higher one waits.
func TestWhatIsNotThereHasAnIndexToWaitOn(t *testing.T) {
	r := newRig(t)
	none := "00000000-0000-4000-8000-000000000000"
	for _, path := range []string{"job/none", "job/none/summary", "job/none/versions", "job/none/submission?version=1",
		"node/" + none, "allocation/" + none, "evaluation/" + none, "deployment/" + none, "volume/csi/none",
		"volume/host/" + none, "plugin/csi/none", "namespace/none", "node/pool/none", "var/none"} {
		a := r.try("GET", "/v1/"+path, nil)
		if a.status != http.StatusNotFound || a.index(t) == 0 || a.header.Get("X-Nomad-KnownLeader") != "true" ||
			a.header.Get("X-Nomad-LastContact") != "0" {
			t.Errorf("%s is answered with %d, %v", path, a.status, a.header)
		}
	}
	for _, path := range []string{"deployments", "deployment/" + none, "volume/host/" + none, "volumes/claims",
		"var/none", "vars", "services"} {
		// The context is there to run out: nothing ends the wait.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, "GET", r.url+"/v1/"+path+"?index=1&wait=1h", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			t.Errorf("%s is answered at once with %d", path, resp.StatusCode)
			_ = resp.Body.Close() // read by nobody
		}
		cancel()
	}
}

// Given requests at the edges of what this API says, then they are answered as unmodified clients know it.
func TestRequestsAtTheEdges(t *testing.T) {
	w := newWorld(t)
	if a := w.must("GET", "/v1/node/not-a-uuid/allocations", nil); strings.TrimSpace(string(a.body)) != "[]" {
		t.Errorf("the allocations of a node that cannot be: %s", a.body)
	}
	var jobs []*api.JobListStub
	if w.get("/v1/jobs?per_page=-1", &jobs); len(jobs) != 3 {
		t.Errorf("of a negative number of jobs in a page there are %d", len(jobs))
	}
	huge := webJob("larger")
	task(huge)["Resources"] = map[string]any{"CPU": 1 << 30, "MemoryMB": 32}
	var plan api.JobPlanResponse
	w.must("PUT", "/v1/job/larger/plan", map[string]any{"Job": huge}).into(t, &plan)
	if len(plan.CreatedEvals) != 1 || plan.CreatedEvals[0].Status != "blocked" ||
		plan.CreatedEvals[0].FailedTGAllocs["g"] == nil {
		t.Errorf("a plan without room would make the evaluations %+v", plan.CreatedEvals)
	}
	for how, want := range map[string]*api.DesiredTransition{
		"true": {Reschedule: new(true), Migrate: new(false)}, "false": {Reschedule: new(false), Migrate: new(true)},
	} {
		id := "stop-" + how
		w.submit(webJob(id))
		var allocs []*api.AllocationListStub
		w.untilRuns(id, &allocs)
		w.must("PUT", "/v1/allocation/"+allocs[0].ID+"/stop?reschedule="+how, nil)
		var a api.Allocation
		w.get("/v1/allocation/"+allocs[0].ID, &a)
		if got := a.DesiredTransition; *got.Reschedule != *want.Reschedule || *got.Migrate != *want.Migrate {
			t.Errorf("stopped with reschedule=%s: reschedule %t, migrate %t", how, *got.Reschedule, *got.Migrate)
		}
	}
}

// Given a job file, when a client has it translated, then it is translated and not judged, and filled in as a client
// would do it.
func TestAFileIsTranslatedAsObserved(t *testing.T) {
	r := newRig(t)
	file := func(inGroup, inTask string) string {
		return "job \"j\" {\n group \"g\" {\n" + inGroup + "\n  task \"t\" {\n   driver = \"exec\"\n" + inTask +
			"\n  }\n }\n}\n"
	}
	for name, c := range map[string]struct {
		source string
		fill   bool
		want   string // part of the answer
	}{
		"what is not built": {file("service {\n name = \"x\"\n}\nupdate {\n stagger = \"1m\"\n}", ""), false,
			`"Stagger":60000000000`},
		"JSON": {`{"job":{"j":{"group":{"g":{"task":{"t":{"driver":"exec"}}}}}}}`, false,
			`"Driver":"exec"`},
		"a choice at run time": {file("", "env {\n A = \"${NOMAD_X == \"a\" ? \"b\" : \"c\"}\"\n}"), false,
			`"A":"${NOMAD_X == \"a\" ? \"b\" : \"c\"}"`},
		"is_set": {file("constraint {\n attribute = \"${meta.x}\"\n is_set = true\n}", ""), false,
			`{"LTarget":"${meta.x}","RTarget":"","Operand":"is_set"}`},
		"an object of a driver": {file("", "config {\n m = { a = 1 }\n}"), false, `"m":[{"a":1}]`},
		"a dynamic block of a driver": {file("", "config {\n dynamic \"mount\" {\n  for_each = [\"a\"]\n  content {\n"+
			"  }\n }\n}"), false, `"dynamic":[`},
		"one name": {"job \"j\" {\n" + strings.Repeat("group \"g\" {\n network {\n  port \"p\" {}\n  port \"p\" {\n"+
			"   static = 1\n  }\n }\n"+strings.Repeat(" task \"t\" {\n  driver = \"exec\"\n }\n", 2)+"}\n", 2) + "}\n",
			false, `{"Label":"p","Value":1,`},
		"a template": {file("", "template {\n data = \"x\"\n destination = \"x\"\n}"), false,
			`"ChangeMode":"restart"`},
		"the pool":       {file("", ""), true, `"Datacenters":null,"NodePool":""`},
		"the migration":  {file("", ""), true, `"Migrate":{"MaxParallel":1,"HealthCheck":"checks"`},
		"the checks":     {file("", ""), true, `"HealthCheck":"checks","MinHealthyTime":10000000000`},
		"a port network": {file("network {\n port \"p\" {}\n}", ""), true, `"Networks":[{"Mode":""`},
	} {
		a := r.must("PUT", "/v1/jobs/parse", map[string]any{"JobHCL": c.source, "Canonicalize": c.fill})
		if !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s is translated without %s: %s", name, c.want, a.body)
		}
	}
}
