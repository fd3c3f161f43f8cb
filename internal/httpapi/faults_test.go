package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/variable"
	"berth/internal/testkit/oneserver"
)

// faults says by which observed reply the status of each kind of fault is known. Where nothing like it was observed the
// reason stands beside it: what a caller can do nothing about by another request is 500, whose text clients print as it
// is.
var faults = map[fault.Kind]struct {
	sample string
	like   string
}{
	fault.Internal:    {"PUT_deployment_fail_ID.500", "a default: most faults of users are 500 there"},
	fault.NotFound:    {"GET_namespace_ID.404", "an object that is not there"},
	fault.Invalid:     {"PUT_job_ID_scale.400", "a request that cannot be done as it is"},
	fault.Conflict:    {"PUT_jobs.500", "another index than the one that was to be enforced"},
	fault.Busy:        {"PUT_jobs.500", "not observed: an object in use is as one in another state"},
	fault.NotReady:    {"PUT_volume_csi_ID_create.500", "not observed: what a plugin cannot do now"},
	fault.Denied:      {"GET_jobs.403", "a token without the right"},
	fault.Unavailable: {"PUT_volume_csi_ID_create.500", "not observed: a plugin that cannot be asked"},
	fault.Timeout:     {"PUT_volume_csi_ID_create.500", "not observed: a plugin that did not answer"},
	fault.Exhausted:   {"PUT_volume_host_create.500", "no node has room"},
	fault.Unsupported: {"GET_quotas.501", "an endpoint that is not there in this edition"},
	fault.Canceled:    {"PUT_volume_csi_ID_create.500", "not observed: nobody is there to read it"},
}

// Given every kind of fault, then its HTTP status is that of the observed reply that it is like; and every observed
// fault that this server can have, too, is answered with its status, as plain text, and in the observed words, but for
// those that testdata/differences.txt gives the reason for.
func TestFaultsHaveTheObservedStatus(t *testing.T) {
	for _, k := range fault.Kinds() {
		row, there := faults[k]
		if !there {
			t.Errorf("nobody says what a fault that is %s is like", k)
			continue
		}
		if s := readSample(t, row.sample); s.status() != k.HTTPStatus() {
			t.Errorf("%s answers %d, what it is like %d: %s", k, k.HTTPStatus(), s.status(), row.like)
		}
	}
	w := newWorld(t)
	w.addForWrites()
	asked, reasons := 0, readDifferences(t)
	for _, s := range samples(t) {
		a := w.replay(s)
		if s.status() < 400 || a.status != s.status() {
			continue // no fault; or one of those that testdata/differences.txt gives the reason for
		}
		asked++
		if ct := a.header.Get("Content-Type"); ct != s.Headers["content-type"] || len(a.body) == 0 {
			t.Errorf("%s is answered as %q: %s", s.name, ct, a.body)
		}
		for _, d := range s.differences(a) {
			if strings.HasPrefix(d, " text") && reasons[s.name+d] == "" {
				t.Errorf("%s was %q, is %q", s.name, s.Body, a.body)
			}
		}
	}
	if asked < 10 {
		t.Errorf("only %d observed faults were met", asked)
	}
}

// Given what a person asks for that others' names or a bound are in the way of, then the answer says so in words, as a
// mistake and not as a failure of the servers: whoever watches for those is not called. Nothing of it is written.
func TestWhatIsTakenOrFullIsNoFailureOfTheServers(t *testing.T) {
	r := newRig(t)
	r.must("PUT", "/v1/acl/policy/p", map[string]any{"Rules": `node { policy = "read" }`})
	role := map[string]any{"Name": "taken", "Policies": []any{map[string]any{"Name": "p"}}}
	var made api.ACLRole
	r.must("PUT", "/v1/acl/role", role).into(t, &made)
	var other api.ACLRole
	r.must("PUT", "/v1/acl/role", map[string]any{"Name": "other", "Policies": role["Policies"]}).into(t, &other)
	token := map[string]any{"Type": "client", "Policies": []any{"p"}, "AccessorID": ids.New(), "SecretID": ids.New()}
	r.must("PUT", "/v1/acl/token", token)
	token["AccessorID"] = ids.New()
	write := func(ns, path, text string) *answer {
		return r.try("PUT", "/v1/var/"+path+"?namespace="+ns, map[string]any{"Items": map[string]any{"k": text}})
	}
	for _, ns := range []string{"many", "large"} {
		r.must("PUT", "/v1/namespace/"+ns, map[string]any{"Name": ns})
	}
	for i := range oneserver.MostVariables.Number {
		if a := write("many", fmt.Sprint("v", i), "x"); a.status != http.StatusOK {
			t.Fatalf("variable %d: %d %s", i, a.status, a.body)
		}
	}
	large := strings.Repeat("x", variable.MaxBytes-1)
	for i := range oneserver.MostVariables.Bytes/variable.MaxBytes - 1 {
		if a := write("large", fmt.Sprint("v", i), large); a.status != http.StatusOK {
			t.Fatalf("variable %d: %d %s", i, a.status, a.body)
		}
	}
	renamed := map[string]any{"ID": other.ID, "Name": "taken", "Policies": role["Policies"]}
	lock := map[string]any{"Lock": map[string]any{"TTL": "15s", "LockDelay": "5s"}}
	for what, c := range map[string]struct {
		got  *answer
		says string
	}{
		"a role of a name that is taken":    {r.try("PUT", "/v1/acl/role", role), made.ID + " has this name (choose another"},
		"a role given such a name":          {r.try("PUT", "/v1/acl/role/"+other.ID, renamed), made.ID + " has this name"},
		"a token of a secret that is taken": {r.try("PUT", "/v1/acl/token", token), "there is another one of this secret"},
		"a variable more than there may be": {write("many", "more", "x"),
			`namespace "many" would be 51, at most 50 are allowed (delete some of them`},
		"a lock that makes one": {r.try("PUT", "/v1/var/more?namespace=many&lock-acquire", lock), "at most 50 are allowed"},
		"more bytes than a namespace may have": {write("large", "more", large),
			`bytes, at most 1048576 are allowed (delete some of them`},
		"a larger variable than one may be": {write("default", "big", large+"x"), "65537 bytes together"},
	} {
		if c.got.status != http.StatusBadRequest || !strings.Contains(string(c.got.body), c.says) {
			t.Errorf("%s: %d %s", what, c.got.status, c.got.body)
		}
	}
	for _, path := range []string{"/v1/var/more?namespace=many", "/v1/var/more?namespace=large", "/v1/var/big"} {
		if a := r.try("GET", path, nil); a.status != http.StatusNotFound {
			t.Errorf("%s was written: %d", path, a.status)
		}
	}
}

// Given a job whose id has a backslash and every other odd character that ids may have, when it goes through every
// route of jobs, percent-encoded, then each finds it.
func TestOddIDsOfJobsPassThroughEveryRoute(t *testing.T) {
	r := newRig(t)
	const id = `job-id/with\troublesome:characters\n?&%41+#字`
	r.submit(webJob(id))
	path := "/v1/job/" + url.PathEscape(id)
	until(r, path+"/summary", func(s *api.JobSummary) bool { return s.JobID == id && s.Summary["g"].Running == 1 })
	var j api.Job
	if r.get(path, &j); *j.ID != id || *j.Name != id {
		t.Errorf("the job is %q, %q", *j.ID, *j.Name)
	}
	var stubs []*api.JobListStub
	if r.get("/v1/jobs?prefix="+url.QueryEscape(id), &stubs); len(stubs) != 1 || stubs[0].ID != id {
		t.Errorf("the list by prefix: %+v", stubs)
	}
	for _, sub := range []string{"/versions", "/allocations", "/evaluations", "/submission?version=0"} {
		if a := r.must("GET", path+sub, nil); len(a.body) < 10 || !strings.Contains(string(a.body), "characters") &&
			sub != "/submission?version=0" {
			t.Errorf("%s: %s", sub, a.body)
		}
	}
	r.must("GET", path+"/deployment", nil)
	r.must("GET", path+"/deployments", nil)
	r.must("PUT", path+"/plan", map[string]any{"Job": webJob(id), "Diff": true})
	r.must("PUT", path, map[string]any{"Job": webJob(id)})
	r.must("PUT", path+"/evaluate", map[string]any{"JobID": id})
	r.must("DELETE", path, nil)
	until(r, path, func(j *api.Job) bool { return *j.Stop })
}
