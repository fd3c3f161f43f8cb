package httpapi_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/wire"
)

// Given every method and path of the public API, when it is called with the names of things that are not there, then
// the answer is a value or says in words what is wrong, what is not there, or what is not built and what to do instead.
func TestNoEndpointIsUnknown(t *testing.T) {
	w := newWorld(t)
	list, err := os.ReadFile("testdata/endpoints.txt")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\{[a-z]+\}`)
	called := 0
	for line := range strings.Lines(string(list)) {
		method, path, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		called++
		status, text := w.begin(method, name.ReplaceAllString(path, ids.New()))
		switch {
		case status == http.StatusNotFound && text == "", status == http.StatusMethodNotAllowed,
			status == http.StatusBadGateway:
			t.Errorf("%s %s: %d %q", method, path, status, text)
		case status == http.StatusNotImplemented && len(strings.Fields(text)) < 3:
			t.Errorf("%s %s says only %q", method, path, text)
		}
	}
	if called != 209 {
		t.Errorf("%d calls were made, this API has 209", called)
	}
	if status, text := w.begin("GET", "/v1/nothing"); status != http.StatusNotFound || text != "" {
		t.Errorf("what does not exist: %d %q", status, text)
	}
}

// begin makes a request and reads the beginning of the answer: some go on for ever.
func (r *rig) begin(method, path string) (status int, text string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader([]byte("{}")))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return resp.StatusCode, ""
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(body)
}

// Given a cluster, when its keys are asked for, then there is one public key that others can read, and it stays the
// same.
func TestTheSigningKeyIsPublished(t *testing.T) {
	r := newRig(t)
	set := until(r, "/.well-known/jwks.json", func(s api.JSONWebKeySet) bool { return len(s.Keys) == 1 })
	k := set.Keys[0]
	x, err := base64.RawURLEncoding.DecodeString(k.X)
	if err != nil || len(x) != ed25519.PublicKeySize || k.KeyType != "OKP" || k.Curve != "Ed25519" ||
		k.Algorithm != "EdDSA" || k.Use != "sig" || !ids.IsUUID(k.KeyID) {
		t.Errorf("the key is %+v, %v", k, err)
	}
	var list []api.RootKeyMeta
	r.get("/v1/operator/keyring/keys", &list)
	if len(list) != 1 || list[0].KeyID != k.KeyID || list[0].State != "active" || list[0].CreateTime == 0 {
		t.Errorf("the keys are %+v", list)
	}
	var again api.JSONWebKeySet
	if r.get("/.well-known/jwks.json", &again); again.Keys[0] != k {
		t.Errorf("the key was %+v and is %+v", k, again.Keys[0])
	}
}

// Given a cluster with a key, when its keys are rotated in full, then the new one is the active one, is wrapped for the
// server, and all is sealed with it; the old one is removed, and neither the active one nor one that is not there is.
func TestKeysAreRotatedAndRemoved(t *testing.T) {
	r := newRig(t)
	until(r, "/.well-known/jwks.json", func(s api.JSONWebKeySet) bool { return len(s.Keys) == 1 })
	client, err := api.NewClient(api.Config{Address: r.url})
	if err != nil {
		t.Fatal(err)
	}
	c := client.Operator()
	first, _, err := c.RootKeys(t.Context(), nil)
	if err != nil || len(first) != 1 || first[0].Algorithm != "aes256-gcm" || first[0].Sealed == 0 {
		t.Fatalf("the keys are %+v, %v", first, err)
	}
	next, err := c.RotateRootKey(t.Context(), true)
	if err != nil || next.State != "active" || next.Sealed == 0 ||
		len(next.Holders) == 0 || !strings.HasPrefix(next.Holders[0], "server ") {
		t.Fatalf("the new key is %+v, %v", next, err)
	}
	both, _, err := c.RootKeys(t.Context(), nil)
	if err != nil || len(both) != 2 || both[0].State != "deprecated" || both[0].Sealed != 0 ||
		both[1].KeyID != next.KeyID {
		t.Errorf("the keys are %+v, %v", both, err)
	}
	for _, id := range []string{next.KeyID, ids.New()} {
		if err := c.RemoveRootKey(t.Context(), id); err == nil {
			t.Errorf("key %s was removed", id)
		}
	}
	if err := c.RemoveRootKey(t.Context(), first[0].KeyID); err != nil {
		t.Error(err)
	}
	set := until(r, "/.well-known/jwks.json", func(s api.JSONWebKeySet) bool { return len(s.Keys) == 1 })
	if set.Keys[0].KeyID != next.KeyID {
		t.Errorf("the signing key is %s", set.Keys[0].KeyID)
	}
}

// Given nodes in two pools, when pools are read, then those of every cluster are there and those that nodes name, with
// their nodes and jobs.
func TestNodePoolsAreThoseThatNodesName(t *testing.T) {
	w := newWorld(t)
	var pools []api.NodePool
	a := w.get("/v1/node/pools", &pools)
	if len(pools) != 2 || pools[0].Name != "all" || pools[1].Name != "default" || a.index(t) == 0 {
		t.Errorf("the pools are %+v", pools)
	}
	gpu := testInfo(ids.Node(ids.New()))
	gpu.NodePool, gpu.Name = "gpu-big", "n2"
	id := wire.NodeIdentity{Node: gpu.ID, Secret: wire.Secrets{Values: map[string]string{"id": ids.New()}}}
	if _, err := wire.NodeRegister.Call(t.Context(), w.conn,
		&wire.NodeRegisterRequest{NodeIdentity: id, Info: gpu}); err != nil {
		t.Fatal(err)
	}
	var three []api.NodePool
	if w.get("/v1/node/pools?prefix=g", &three); len(three) != 1 || three[0].Name != "gpu-big" {
		t.Errorf("the pools that begin with g are %+v", three)
	}
	var one api.NodePool
	if w.get("/v1/node/pool/gpu-big", &one); one.Name != "gpu-big" {
		t.Errorf("the pool is %+v", one)
	}
	for pool, want := range map[string]int{"all": 2, "default": 1, "gpu-big": 1, "nope": 0} {
		var nodes []api.NodeListStub
		if w.get("/v1/node/pool/"+pool+"/nodes", &nodes); len(nodes) != want {
			t.Errorf("pool %s has %d nodes, want %d", pool, len(nodes), want)
		}
	}
	var all, none []api.JobListStub
	w.get("/v1/node/pool/default/jobs", &all)
	w.get("/v1/node/pool/gpu-big/jobs", &none)
	if len(all) == 0 || len(none) != 0 {
		t.Errorf("%d jobs ask for the default pool, %d for another", len(all), len(none))
	}
	if a := w.try("GET", "/v1/node/pool/nope", nil); a.status != 404 || string(a.body) != "node pool not found" ||
		a.header.Get("X-Nomad-Index") == "" {
		t.Errorf("a pool that is not there: %d %q, index %q", a.status, a.body, a.header.Get("X-Nomad-Index"))
	}
}

// Given things that there cannot be yet, when they are listed, then the list is empty, and who waits for a change
// waits.
func TestWhatThereCannotBeIsAnEmptyList(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1/job/web/actions", "/v1/acl/auth-methods"} {
		if a := w.must("GET", path, nil); strings.TrimSpace(string(a.body)) != "[]" || a.index(t) == 0 {
			t.Errorf("%s: %q at index %d", path, a.body, a.index(t))
		}
	}
	w.must("GET", "/v1/acl/auth-methods?index=1&wait=100ms", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // runs out while the read waits for a change
	defer cancel()
	read, err := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/acl/auth-methods?index=1&wait=10m", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := http.DefaultClient.Do(read); err == nil {
		_ = a.Body.Close()
		t.Errorf("a read that waits for a change came back with %s", a.Status)
	}
	var count api.EvalCountResponse
	if w.get("/v1/evaluations/count", &count); count.Count == 0 {
		t.Errorf("there are no evaluations: %+v", count)
	}
	if w.get("/v1/evaluations/count?filter=JobID+%3D%3D+none", &count); count.Count != 0 {
		t.Errorf("evaluations of no job: %+v", count)
	}
	var sched api.SchedulerConfigurationResponse
	if w.get("/v1/operator/scheduler/configuration", &sched); sched.SchedulerConfig == nil ||
		sched.SchedulerConfig.SchedulerAlgorithm != "binpack" ||
		!sched.SchedulerConfig.MemoryOversubscriptionEnabled { // memory_max is honoured
		t.Errorf("the scheduler is %+v", sched)
	}
}

// Given a volume, when it is registered at the path of older clients, then it is as at its own.
func TestAVolumeIsRegisteredAtTheOldPath(t *testing.T) {
	w := newWorld(t)
	v := withSecrets(t, volumeSpec("old"))
	v["ExternalID"] = "ext-old"
	w.must("PUT", "/v1/volumes", map[string]any{"Volumes": []any{v}})
	w.must("GET", "/v1/volume/csi/old", nil)
}
