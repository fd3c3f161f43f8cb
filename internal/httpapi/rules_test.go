package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/httpapi/access"
	"berth/internal/model/node"
)

// Given a server with nothing in it but a node, when every list is read, then the index is at least 1, lists are [] and
// never null, and what clients must find is there.
func TestAnEmptyClusterAnswersWithEmptyListsAndAnIndex(t *testing.T) {
	r := newRigWith(t, func(n *node.Node) { n.CSI = nil }) // a plugin runs in an allocation
	for _, path := range []string{"/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/volumes?type=csi",
		"/v1/volumes?type=host", "/v1/volumes", "/v1/deployments",
		"/v1/job/none/allocations", "/v1/job/none/evaluations", "/v1/job/none/deployments", "/v1/volumes/claims",
		"/v1/node/" + string(r.node.id.Node) + "/allocations"} {
		a := r.must("GET", path, nil)
		if strings.TrimSpace(string(a.body)) != "[]" {
			t.Errorf("%s: %s", path, a.body)
		}
		if a.index(t) < 1 || a.header.Get("X-Nomad-KnownLeader") != "true" ||
			a.header.Get("X-Nomad-LastContact") == "" {
			t.Errorf("%s: headers %v", path, a.header)
		}
	}
	if a := r.must("GET", "/v1/job/none/deployment", nil); strings.TrimSpace(string(a.body)) != "null" ||
		a.index(t) < 1 {
		t.Errorf("the deployment of no job is %s", a.body)
	}
}

// Given objects of every kind, when each is read, then the index header is there and not below what the object says.
func TestEveryReadHasItsIndex(t *testing.T) {
	w := newWorld(t)
	node := string(w.node.id.Node)
	for _, path := range []string{"/v1/jobs", "/v1/job/web", "/v1/job/web/summary", "/v1/job/web/versions",
		"/v1/job/web/submission?version=0", "/v1/job/web/allocations",
		"/v1/job/web/evaluations", "/v1/job/web/deployment", "/v1/job/web/deployments", "/v1/allocations",
		"/v1/allocation/" + w.alloc, "/v1/evaluations", "/v1/evaluation/" + w.eval,
		"/v1/evaluation/" + w.eval + "/allocations", "/v1/nodes", "/v1/node/" + node, "/v1/node/" + node +
			"/allocations", "/v1/volumes?type=csi", "/v1/volume/csi/db",
		"/v1/plugins?type=csi", "/v1/plugin/csi/disk", "/v1/namespaces", "/v1/namespace/default", "/v1/deployments",
		"/v1/acl/policies", "/v1/acl/policy/ro", "/v1/acl/roles", "/v1/acl/role/name/r", "/v1/acl/tokens",
		"/v1/acl/token/" + w.token} {
		a := w.must("GET", path, nil)
		var object struct{ ModifyIndex uint64 }
		_ = json.Unmarshal(a.body, &object) // lists have none
		if a.index(t) < max(1, object.ModifyIndex) {
			t.Errorf("%s: index %d, the object says %d", path, a.index(t), object.ModifyIndex)
		}
		if bytes.Contains(a.body, []byte(canary)) {
			t.Errorf("%s shows a secret: %s", path, a.body)
		}
	}
}

// Given a reader that waits for a change of a job, when another job changes it sleeps on, and when its own changes it
// is woken at once; when nothing changes the wait ends with the same index.
func TestABlockingReadWakesForItsObject(t *testing.T) {
	r := newRig(t)
	r.submit(webJob("one"))
	until(r, "/v1/job/one/summary", func(s *api.JobSummary) bool { return s.Summary["g"].Running == 1 })
	var j api.Job
	first := r.get("/v1/job/one", &j)
	again := r.must("GET", fmt.Sprintf("/v1/job/one?index=%d&wait=200ms", first.index(t)), nil)
	if again.index(t) != first.index(t) || !bytes.Equal(first.body, again.body) {
		t.Errorf("without a change: index %d, was %d", again.index(t), first.index(t))
	}
	woken := make(chan *answer, 1)
	go func() { woken <- r.try("GET", fmt.Sprintf("/v1/job/one?index=%d&wait=1m", first.index(t)), nil) }()
	r.submit(webJob("two"))
	select {
	case a := <-woken:
		t.Fatalf("woken by another job: index %d, was %d\n%s\n%s", a.index(t), first.index(t), first.body, a.body)
	case <-time.After(100 * time.Millisecond):
	}
	changed := webJob("one")
	changed["Priority"] = 70
	r.submit(changed)
	a := <-woken
	if a.into(t, &j); a.status != 200 || a.index(t) <= first.index(t) || *j.Priority != 70 {
		t.Errorf("woke with %d, index %d, priority %d", a.status, a.index(t), *j.Priority)
	}
}

// Given the texts and codes that unmodified clients know, when the mistake is made, then they are met.
func TestErrorsHaveTheStatusAndTextThatClientsKnow(t *testing.T) {
	w := newWorld(t)
	none := "00000000-0000-4000-8000-000000000000"
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		text         string // part of the body; empty: the body is empty
	}{
		{"GET", "/v1/nothing", nil, 404, ""},
		{"GET", "/nothing", nil, 404, ""},
		{"GET", "/v1/volume/csi/a/b", nil, 404, ""},
		{"POST", "/v1/nodes", nil, 405, "Invalid method"},
		{"DELETE", "/v1/jobs", nil, 405, "Invalid method"},
		{"PATCH", "/v1/job/web", nil, 405, "Invalid method"},
		{"GET", "/v1/jobs?index=x", nil, 400, "Invalid index"},
		{"GET", "/v1/jobs?index=-1", nil, 400, "Invalid index"},
		{"GET", "/v1/jobs?wait=soon", nil, 400, "Invalid wait time"},
		{"GET", "/v1/jobs?stale=perhaps", nil, 400, `Failed to parse value of "stale"`},
		{"GET", "/v1/jobs?per_page=many", nil, 400, "per_page"},
		{"GET", "/v1/jobs?filter=ID+==", nil, 400,
			"failed to create result paginator: failed to read filter expression"},
		{"GET", "/v1/jobs?filter=Nothing+%3D%3D+1", nil, 400, "failed to read result page: "},
		{"HEAD", "/v1/jobs", nil, 405, ""},
		{"GET", "/v1/volumes?type=tape", nil, 404, "resource not found"},
		{"PUT", "/v1/search", map[string]any{"Prefix": "w", "Context": "tapes"}, 500,
			"context must be one of [allocs deployment evals jobs namespaces node_pools nodes plugins vars scaling_policy volumes all]"},
		{"GET", "/v1/job/web/submission", nil, 400, "Unable to parse job submission version parameter"},
		{"GET", "/v1/job/none", nil, 404, "job not found"},
		{"GET", "/v1/job/..%2Fx", nil, 404, "job not found"},
		{"GET", "/v1/job/a%2Fb", nil, 404, "job not found"},
		{"GET", "/v1/job/a%00b", nil, 400, "or has a zero byte"},
		{"PUT", "/v1/var/nomad/jobs/../x", `{"Items":{"a":"b"}}`, 400, "or one that is . or .."},
		{"PUT", "/v1/var/a//b", `{"Items":{"a":"b"}}`, 400, "has an empty part"},
		{"GET", "/v1/./jobs", nil, 400, "or one that is . or .."},
		{"GET", "/v1/job/%ff%fe", nil, 400, "the address is not UTF-8"},
		{"GET", "/v1/client/fs/cat/x?path=a%00b", nil, 400, "or has a zero byte"},
		{"GET", "/v1/jobs?prefix=%ff", nil, 400, "the address is not UTF-8"},
		{"GET", "/v1/jobs?prefix=%zz", nil, 400, "the query of the address cannot be read"},
		{"GET", "/v1/job/" + long, nil, 404, "job not found"},
		{"GET", "/v1/job/none/versions", nil, 404, "job versions not found"},
		{"GET", "/v1/job/web/submission?version=7", nil, 404, "job source not found"},
		{"GET", "/v1/job/none/summary", nil, 404, "job not found"},
		{"GET", "/v1/allocation/" + none, nil, 404, "alloc not found"},
		{"GET", "/v1/allocation/abc", nil, 500, "UUID must be 36 characters"},
		{"GET", "/v1/allocation/" + long, nil, 500, "UUID must be 36 characters"},
		{"GET", "/v1/evaluation/" + none, nil, 404, "eval not found"},
		{"GET", "/v1/node/" + none, nil, 404, "node not found"},
		{"GET", "/v1/node/..%2F..%2Fetc", nil, 500, "UUID must be 36 characters"},
		{"GET", "/v1/deployment/" + none, nil, 404, "deployment not found"},
		{"GET", "/v1/volume/csi/none", nil, 404, "volume not found"},
		{"GET", "/v1/volume/csi/..%2Fdb", nil, 404, "volume not found"},
		{"GET", "/v1/volume/host/" + none, nil, 404, "volume not found"},
		{"GET", "/v1/plugin/csi/none", nil, 404, "plugin not found"},
		{"GET", "/v1/plugins?type=host", nil, 404, "resource not found"},
		{"GET", "/v1/namespace/none", nil, 404, "Namespace not found"},
		{"PUT", "/v1/jobs", "{", 400, "JSON"},
		{"PUT", "/v1/jobs", "", 400, "body"},
		{"PUT", "/v1/jobs", "{}", 400, "Job must be specified"},
		{"PUT", "/v1/jobs", `{"Job":null}`, 400, "Job must be specified"},
		{"PUT", "/v1/job/other", map[string]any{"Job": webJob("web")}, 400, "Job ID does not match"},
		{"PUT", "/v1/jobs?region=mars", map[string]any{"Job": webJob("web")}, 500, "No path to region"},
		{"GET", "/v1/jobs?region=mars", nil, 500, "No path to region"},
		{"PUT", "/v1/jobs", map[string]any{"Job": webJob("../x")}, 500, "job ID"},
		{"PUT", "/v1/jobs", map[string]any{"Job": webJob("a\x00b")}, 400, "job ID"},
		{"PUT", "/v1/jobs", map[string]any{"Job": webJob(long)}, 500, "the limit is 128"},
		{"PUT", "/v1/jobs", "{\"Job\":{\"ID\":\"\xff\"}}", 400, "not UTF-8"},
		{"PUT", "/v1/jobs", `{"Job":{"ID":"\ud800"}}`, 400, "half of a character"},
		{"PUT", "/v1/search", `{"Prefix":"\udc00"}`, 400, "half of a character"},
		{"PUT", "/v1/search", `{"Prefix":"a\u0000"}`, 400, "zero byte"},
		{"PUT", "/v1/search", `{"Prefix":"a","Namespace":"\u0000"}`, 400, "zero byte"},
		{"PUT", "/v1/jobs?namespace=nowhere", map[string]any{"Job": webJob("x")}, 500,
			`namespace "nowhere" does not exist`},
		{"PUT", "/v1/jobs?namespace=berth", map[string]any{"Job": webJob("x")}, 403, "berth"},
		{"PUT", "/v1/acl/bootstrap", map[string]any{"BootstrapSecret": "short"}, 400, "UUID"},
		{"GET", "/v1/acl/token/self", nil, 403, "ACL token not found"},
		{"GET", "/v1/acl/policy/self", nil, 403, "the request shows no token"},
		{"GET", "/v1/acl/token/none", nil, 404, "ACL token not found"},
		{"GET", "/v1/acl/policy/none", nil, 404, "ACL policy not found"},
		{"GET", "/v1/acl/role/name/none", nil, 404, "ACL role not found"},
		{"DELETE", "/v1/acl/role/none", nil, 404, "ACL role not found"},
		{"PUT", "/v1/acl/policy/p", map[string]any{"Name": "q"}, 400, `"q" of the body is not "p" of the path`},
		{"PUT", "/v1/acl/policy/p", map[string]any{"JobACL": map[string]any{"Task": "t"}}, 400, "and no job"},
		{"PUT", "/v1/acl/policy/p", map[string]any{"Rules": "node {\n}\nnamespaces {\n}"}, 400, "p:3"},
		{"PUT", "/v1/acl/token", map[string]any{"Type": "client"}, 400, "it has neither policies nor roles"},
		{"PUT", "/v1/acl/token", map[string]any{"ExpirationTTL": "soon"}, 400, "ExpirationTTL"},
		{"PUT", "/v1/volume/csi/x/create", map[string]any{}, 400, "missing volume definition"},
		{"PUT", "/v1/volume/csi/x/create",
			map[string]any{"Volumes": []any{map[string]any{"ID": "x", "PluginID": "disk"}}}, 500, "validation: "},
		{"PUT", "/v1/volume/csi/y/create", map[string]any{"Volumes": []any{volumeSpec("x")}}, 400, "does not match"},
		{"DELETE", "/v1/volume/csi/db/delete", nil, 500, "in use"},
		{"DELETE", "/v1/volume/csi/db", nil, 500, "volume in use: db"},
		{"DELETE", "/v1/volume/csi/none", nil, 404, "volume not found"},
		{"DELETE", "/v1/volume/csi/db/detach", nil, 400, "node"},
		{"GET", "/v1/client/fs/logs/" + none + "?task=t&type=stdout", nil, 404, `Unknown allocation "` + none},
		{"GET", "/v1/client/fs/logs/" + w.alloc + "?task=t&type=std", nil, 400,
			"must provide log type (stdout/stderr)"},
		{"GET", "/v1/client/fs/logs/" + w.alloc + "?task=nope&type=stdout", nil, 400, `unknown task name "nope"`},
		{"GET", "/v1/client/fs/logs/" + w.alloc + "?type=stdout", nil, 400, "task name"},
		{"GET", "/v1/client/fs/stat/" + w.alloc + "?path=/nope", nil, 404, "no such file"},
		{"GET", "/v1/client/fs/cat/" + w.alloc + "?path=/nope", nil, 404, "no such file"},
		{"GET", "/v1/client/fs/readat/" + w.alloc + "?path=/alloc/data/readme&offset=x", nil, 400, "offset"},
		{"PUT", "/v1/client/allocation/" + w.alloc + "/signal", map[string]any{"Signal": "SIGNOPE"}, 400, "SIGNOPE"},
		{"PUT", "/v1/client/allocation/" + none + "/restart", map[string]any{}, 404, "Unknown allocation"},
		{"GET", "/v1/agent/monitor?log_level=loud", nil, 400, "Unknown log level: loud"},
		{"GET", "/v1/agent/monitor?node_id=" + none, nil, 404, "node not found"},
		{"GET", "/v1/agent/monitor?server_id=elsewhere", nil, 404, "it is not the server of this agent"},
		{"PUT", "/v1/node/" + string(w.node.id.Node) + "/eligibility", map[string]any{"Eligibility": "maybe"}, 400,
			"maybe"},
		{"PUT", "/v1/job/web/dispatch", map[string]any{}, 400, "it is not parameterized"},
		{"PUT", "/v1/node/" + string(w.node.id.Node) + "/drain", map[string]any{}, 501, "not built"},
		{"GET", "/v1/var/a/b", nil, 404, "variable not found"},
		{"PUT", "/v1/var/a/b", map[string]any{}, 400, "it is to hold nothing"},
		{"PUT", "/v1/var/a.b", map[string]any{"Items": map[string]any{"k": "v"}}, 400, "letters, digits"},
		{"PUT", "/v1/var/a/b", map[string]any{"Path": "c", "Items": map[string]any{"k": "v"}}, 400, "about variable"},
		{"PUT", "/v1/var/a/b?cas=x", map[string]any{"Items": map[string]any{"k": "v"}}, 400, "cas must be"},
		{"PUT", "/v1/var/a/b?lock-acquire&cas=0", map[string]any{}, 400, "leave out the other"},
		{"PUT", "/v1/var/a/b?lock-acquire", map[string]any{"Lock": map[string]any{"TTL": "1s"}}, 400, "from 10s"},
		{"PUT", "/v1/var/a/b?lock-acquire", map[string]any{"Lock": map[string]any{"TTL": "x"}}, 400, "duration"},
		{"PUT", "/v1/var/a/b?lock-renew", map[string]any{"Lock": map[string]any{"ID": none}}, 409, `"Path":"a/b"`},
		{"PUT", "/v1/var/a/b?lock-release", map[string]any{}, 409, `"ModifyIndex":0`},
		{"DELETE", "/v1/var/a/b?cas=7", nil, 409, `"ModifyIndex":0`},
		{"PUT", "/v1/var/a/b", map[string]any{"Namespace": "c", "Items": map[string]any{"k": "v"}}, 400, "namespace=c"},
		{"DELETE", "/v1/var/a/b", nil, 204, ""},
		{"GET", "/v1/quotas", nil, 501, "Nomad Enterprise only endpoint"},
	} {
		a := w.try(c.method, c.path, c.body)
		if a.status != c.status || c.text == "" && len(a.body) != 0 || !strings.Contains(string(a.body), c.text) {
			t.Errorf("%s %.80s: %d %q, want %d %q", c.method, c.path, a.status, a.body, c.status, c.text)
		}
		if c.text != "" && a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s %s: content type %q", c.method, c.path, a.header.Get("Content-Type"))
		}
		if bytes.Contains(a.body, []byte(canary)) {
			t.Errorf("%s %s shows a secret", c.method, c.path)
		}
	}
}

// Given a job with members that nobody knows, as clients of later versions send them, when it is checked, planned and
// registered, then it is taken without them, and a warning names each with what was probably meant.
func TestMembersThatAreNotKnownAreIgnoredWithAWarning(t *testing.T) {
	w := newWorld(t)
	odd := webJob("odd")
	odd["Prioritty"], odd["Old"] = 70, nil
	task(odd)["Retries"] = 3
	for _, path := range []string{"/v1/validate/job", "/v1/job/odd/plan", "/v1/jobs"} {
		var out struct{ Warnings, Error string }
		w.must("PUT", path, map[string]any{"Job": odd}).into(t, &out)
		for _, want := range []string{`the member Prioritty is not known and has no effect; did you mean "Priority"?`,
			"the member TaskGroups[0].Tasks[0].Retries is not known and has no effect"} {
			if out.Error != "" || !strings.Contains(out.Warnings, want) {
				t.Errorf("%s answers without %q: %+v", path, want, out)
			}
		}
		if strings.Contains(out.Warnings, "Old") {
			t.Errorf("%s warns of a member that carries nothing: %s", path, out.Warnings)
		}
	}
	var there api.Job
	if w.get("/v1/job/odd", &there); *there.Priority != 50 {
		t.Errorf("it has priority %d", *there.Priority)
	}
}

// Given a job with members that are not built, or nested beyond any use, when it is submitted, then every one is named
// and nothing is stored.
func TestMembersOfAJobAreRefusedByName(t *testing.T) {
	r := newRig(t)
	deep := webJob("deep")
	var nest any = "end"
	for range 200 {
		nest = map[string]any{"a": nest}
	}
	task(deep)["Config"] = nest
	unbuilt := webJob("unbuilt")
	unbuilt["UI"] = map[string]any{"Description": "x"}
	task(unbuilt)["Vault"] = map[string]any{"Role": "x"}
	for _, c := range []struct {
		job   map[string]any
		texts []string
	}{{deep, []string{"nests objects and lists more than 40 deep"}},
		{unbuilt, []string{"ui", `group "g": task "t": vault`}}} {
		for _, path := range []string{"/v1/jobs", "/v1/job/" + c.job["ID"].(string) + "/plan"} {
			a := r.try("PUT", path, map[string]any{"Job": c.job})
			for _, text := range c.texts {
				if a.status != 400 || !strings.Contains(string(a.body), text) {
					t.Errorf("%s: %d %s, want %q", path, a.status, a.body, text)
				}
			}
		}
		if a := r.try("GET", "/v1/job/"+c.job["ID"].(string), nil); a.status != 404 {
			t.Errorf("the refused job is there: %s", a.body)
		}
	}
	var v api.JobValidateResponse
	r.must("PUT", "/v1/validate/job", map[string]any{"Job": unbuilt}).into(t, &v)
	if len(v.ValidationErrors) == 0 || !strings.Contains(v.Error, "ui is not built") {
		t.Errorf("validation says %+v", v)
	}
}

// Given bodies beyond any use, when they are sent, then they are refused with words and the connection's server lives
// on.
func TestAHugeBodyIsRefused(t *testing.T) {
	r := newRig(t)
	req, err := http.NewRequestWithContext(t.Context(), "PUT", r.url+"/v1/jobs", io.LimitReader(zeros{}, 100<<20))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 100 << 20
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != 413 || !strings.Contains(string(text), "larger than") {
		t.Errorf("%d %q %v", resp.StatusCode, text, err)
	}
	r.must("GET", "/v1/jobs", nil)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Given a web page that was lured to the agent, when its requests name another host or come from another origin, then
// they are refused; the agent's own names are taken.
func TestForeignHostsAndOriginsAreRefused(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		method string
		header []string
		status int
	}{
		{"GET", []string{"Host", "evil.example"}, 403},
		{"GET", []string{"Host", "10.0.0.1:4646"}, 403},
		{"GET", []string{"Host", "localhost:4646"}, 200},
		{"GET", []string{"Host", "[::1]:4646"}, 200},
		{"GET", []string{"Host", "berth.example:4646"}, 200},
		{"PUT", []string{"Origin", "http://evil.example"}, 403},
		{"PUT", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"PUT", []string{"Sec-Fetch-Site", "same-origin"}, 200},
	} {
		path := map[string]string{"GET": "/v1/jobs", "PUT": "/v1/system/gc"}[c.method]
		if a := r.try(c.method, path, nil, c.header...); a.status != c.status {
			t.Errorf("%s %v: %d %s", c.method, c.header, a.status, a.body)
		}
	}
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
		"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	if a := r.try("GET", "/v1/client/allocation/x/exec?command=[\"sh\"]", nil,
		append(upgrade, "Origin", "http://evil.example")...); a.status != 403 {
		t.Errorf("a foreign page opened a WebSocket: %d %s", a.status, a.body)
	}
}

// Given pretty and gzip, when they are asked for, then the reply is indented, packed and the same; a write without a
// body to decode is empty.
func TestFormsOfAReply(t *testing.T) {
	r := newRig(t)
	r.submit(webJob("<a&b>"))
	until(r, "/v1/job/%3Ca&b%3E/summary", func(s *api.JobSummary) bool { return s.Summary["g"].Running == 1 })
	plain := r.must("GET", "/v1/jobs", nil)
	if !bytes.Contains(plain.body, []byte("<a&b>")) || plain.header.Get("Vary") == "" ||
		bytes.Contains(plain.body, []byte("\n    ")) {
		t.Errorf("the plain reply is %s", plain.body)
	}
	if pretty := r.must("GET", "/v1/jobs?pretty", nil); !bytes.Contains(pretty.body, []byte("\n    ")) {
		t.Errorf("the pretty reply is %s", pretty.body)
	}
	if near := r.try("GET", "/v1/jobs", nil, "Accept-Encoding", "gzip"); !bytes.Equal(near.body, plain.body) ||
		near.header.Get("Content-Encoding") != "" {
		t.Errorf("for a client on this machine it is %q, %v", near.body, near.header)
	}
	packed, req := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", r.url+"/v1/jobs", nil)
	req.RemoteAddr = "192.0.2.1:99"
	req.Header.Set("Accept-Encoding", "gzip")
	r.handler.Handler(access.Network{}).ServeHTTP(packed, req)
	z, err := gzip.NewReader(packed.Body)
	if err != nil || packed.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("not packed: %d %v %v", packed.Code, packed.Header(), err)
	}
	if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, plain.body) {
		t.Errorf("unpacked: %s %v", text, err)
	}
	if gc := r.must("POST", "/v1/system/gc", "{}"); len(gc.body) != 0 {
		t.Errorf("the collection answered %s", gc.body)
	}
	var again api.JobRegisterResponse
	var stored json.RawMessage
	r.get("/v1/job/%3Ca&b%3E", &stored)
	r.must("PUT", "/v1/jobs", map[string]any{"Job": stored}).into(t, &again)
	if again.Outcome != "unchanged" {
		t.Errorf("a job that was read and sent back is %q", again.Outcome)
	}
	if a := r.must("DELETE", "/v1/job/none", nil); !bytes.Contains(a.body, []byte(`"EvalID":""`)) {
		t.Errorf("stopping no job: %s", a.body)
	}
}
