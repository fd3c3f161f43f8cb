package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/httpapi"
	"berth/internal/httpapi/access"
)

// policies of those who ask, in the order in which they do. Management comes last: what it asks for is done.
var policies = []struct{ name, rules string }{
	{"nobody", ""},
	{"unknown", ""},
	{"expired", ""},
	{"node", ""},
	{"other", `namespace "other" { policy = "write" }`},
	{"everywhere", `namespace "other" { policy = "write" }`},
	{"twins", `
namespace "defaul" { policy = "write" }
namespace "default2" { policy = "write" }`},
	{"reader", `namespace "default" { policy = "read" }`},
	{"writer", `namespace "default" { policy = "write" }`},
	{"operator", `
node { policy = "write" }
agent { policy = "write" }
operator { policy = "write" }
plugin { policy = "read" }`},
	{"management", ""},
}

// judged is a rig whose port is guarded by access control lists, with the secrets of the persons.
func judged(t *testing.T, w *world) (url string, secrets map[string]string) {
	t.Helper()
	secrets = map[string]string{
		"nobody":     "",
		"unknown":    ids.New(),
		"expired":    w.expired().Reveal(),
		"node":       w.node.id.Secret.Values["id"],
		"management": w.secret,
	}
	for _, p := range policies {
		if p.rules == "" {
			continue
		}
		w.must("PUT", "/v1/acl/policy/"+p.name, map[string]any{"Rules": p.rules})
		var made api.ACLToken
		w.must("PUT", "/v1/acl/token", map[string]any{"Type": "client", "Policies": []string{p.name}}).into(t, &made)
		secrets[p.name] = made.SecretID
	}
	return w.guarded().url, secrets
}

// guarded is the same rig by way of a port that access control lists guard.
func (r *rig) guarded() *rig {
	return r.by(r.handler.Handler(
		access.Network{Lists: true, Bootstrap: true, Agent: "n", Token: redact.New("the agent's own token")}))
}

// listsOff is the same rig as an agent shows it that has no access control lists.
func (r *rig) listsOff() *rig { return r.by(r.handler.ListsOff().Handler(access.Network{})) }

// by is the same rig by another way in.
func (r *rig) by(way http.Handler) *rig {
	web := httptest.NewServer(way)
	r.t.Cleanup(web.Close)
	other := *r
	other.url = web.URL
	return &other
}

// ask makes a request with a token, and reads no more than whether it was refused.
func ask(t *testing.T, method, url, secret string, body any) (status int, text string) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Nomad-Token", secret)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusForbidden {
		var said bytes.Buffer
		_, _ = said.ReadFrom(resp.Body)
		text = said.String()
	}
	return resp.StatusCode, text
}

// bodyOf is a body that a route takes.
func bodyOf(route, id string) any {
	switch _, path, _ := strings.Cut(route, " "); {
	case strings.HasSuffix(path, "/scale"):
		return map[string]any{"Count": 1, "Target": map[string]any{"Group": "g"}}
	case strings.HasPrefix(path, "/v1/job"), path == "/v1/validate/job":
		return map[string]any{"Job": webJob(id), "JobHCL": "job \"a\" {}"}
	case strings.Contains(path, "/expand"):
		return map[string]any{"CapacityMin": 1}
	case strings.HasSuffix(path, "/snapshot"):
		return map[string]any{"Snapshots": []any{map[string]any{"SourceVolumeID": id}}}
	case strings.HasPrefix(path, "/v1/volume"):
		return map[string]any{"Volumes": []any{volumeSpec(id)}}
	case path == "/v1/client/metadata": // of the node that the query names
		return map[string]any{"Meta": map[string]any{"rack": "r7"}}
	case strings.HasPrefix(path, "/v1/deployment/"):
		return map[string]any{"All": true, "HealthyAllocationIDs": []string{ids.New()}}
	case strings.HasPrefix(path, "/v1/acl/policy"):
		return map[string]any{"Rules": `node { policy = "read" }`}
	case strings.HasPrefix(path, "/v1/acl/role"):
		return map[string]any{"Name": "r", "Policies": []any{map[string]any{"Name": "reader"}}}
	}
	return map[string]any{"Eligibility": "eligible", "Path": "/x", "Reason": "r", "Provider": "p", "NodeID": id,
		"Type": "client", "Policies": []string{"reader"}, "Role": "node", "NewNodeID": ids.New(), "Digest": "d",
		"Orphans": []any{map[string]any{"NodeID": ids.New(), "AllocID": ids.New()}}, "Signal": "SIGHUP"}
}

// TestEveryRouteIsForWhomTheTableSays: of every route, those of testdata/persons.txt get something else than a refusal,
// and all others are refused in the words that clients know.
func TestEveryRouteIsForWhomTheTableSays(t *testing.T) {
	raw, err := os.ReadFile("testdata/persons.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		if route, who, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, "#") {
			want[route] = strings.Fields(who)
		}
	}
	w := newWorld(t)
	url, secrets := judged(t, w)
	for _, p := range policies {
		for _, route := range httpapi.Routes() {
			if want[route] == nil {
				t.Fatalf("nothing says who may: %s", route)
			}
			if p.name == "management" && strings.HasPrefix(route, "PUT /v1/operator/snapshot") {
				continue // it would end the others
			}
			method, path, _ := strings.Cut(route, " ")
			id := idFor(w, path)
			at := w.asked(path, id)
			if p.name == "everywhere" {
				at = strings.Replace(at, "namespace=default", "namespace=*", 1)
			}
			status, text := ask(t, method, url+at, secrets[p.name], bodyOf(route, id))
			refused := status == http.StatusForbidden
			if refused == slices.Contains(want[route], p.name) {
				t.Errorf("%s: %s: %d %s", p.name, route, status, text)
			}
			if refused && !strings.HasPrefix(text, "Permission denied") && path != "/v1/acl/policy/self" {
				t.Errorf("%s: %s: %s", p.name, route, text)
			}
		}
	}
}

// TestNoReadChangesTheState: after every GET there is, asked by one who may do everything, the state of the servers has
// the index that it had before, though there is something to collect. By two of them clients of this API have a node
// collect garbage.
func TestNoReadChangesTheState(t *testing.T) {
	collect := []string{"/v1/client/gc", "/v1/client/allocation/{id}/gc"}
	w := newWorld(t)
	url, secrets := judged(t, w)
	for _, id := range []string{"fails", "huge"} { // they would be tried again
		w.must("DELETE", "/v1/job/"+id, nil)
	}
	for last := uint64(0); last != w.index(); time.Sleep(500 * time.Millisecond) {
		last = w.index()
	}
	reads, skipped := 0, 0
	for _, route := range httpapi.Routes() {
		path, is := strings.CutPrefix(route, "GET ")
		switch {
		case !is:
			continue
		case slices.Contains(collect, path):
			skipped++
			continue
		}
		reads++
		before := w.index()
		status, _ := ask(t, http.MethodGet, url+w.asked(path, idFor(w, path)), secrets["management"], nil)
		if status == http.StatusForbidden {
			t.Errorf("%s was refused", route)
		}
		if after := w.index(); after != before {
			t.Errorf("%s changes the state of the servers: it was at %d, and is at %d", route, before, after)
		}
	}
	if reads < 80 || skipped != len(collect) {
		t.Errorf("%d reads were asked, and %d collect garbage", reads, skipped)
	}
}

// asked is a path of the table with a name in it, and with what any route may ask for.
func (w *world) asked(path, id string) string {
	at := regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, id) +
		"?namespace=default&node_id=" + string(w.node.id.Node) + "&node=" + string(w.node.id.Node) +
		"&type=csi&plugin_id=disk&task=t&follow=false&path=/&reason=r&snapshot_id=x&wait=1ms&version=0"
	if strings.HasPrefix(path, "/v1/client/") {
		at = strings.Replace(at, "type=csi", "type=stdout", 1)
	}
	return at
}

// idFor is the name of what a path is about: an object of namespace default where it makes a difference.
func idFor(w *world, path string) string {
	switch {
	case strings.HasPrefix(path, "/v1/allocation/"), strings.HasPrefix(path, "/v1/client/"):
		return w.alloc
	case strings.HasPrefix(path, "/v1/evaluation/"):
		return w.eval
	case strings.HasPrefix(path, "/v1/node/{"):
		return string(w.node.id.Node)
	case strings.HasPrefix(path, "/v1/namespace/"):
		return "default"
	}
	return ids.New()
}
