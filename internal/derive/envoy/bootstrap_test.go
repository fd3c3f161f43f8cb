package envoy_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/derive/envoy"
	"berth/internal/model/job"
)

// dig is the member of a decoded JSON value at a path; numbers are those of lists.
func dig(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch at := step.(type) {
		case string:
			v = v.(map[string]any)[at]
		case int:
			v = v.([]any)[at]
		}
		if v == nil {
			t.Fatalf("there is nothing at %v of %v", step, path)
		}
	}
	return v
}

// TestEnvoyBeginsWithWhoItIsAndItsWayToConsul: given a proxy, then its file says its id and its service, its way to
// Consul, by whose token it asks, and where it is asked itself.
func TestEnvoyBeginsWithWhoItIsAndItsWayToConsul(t *testing.T) {
	text, err := envoy.Bootstrap(envoy.Config{
		ID:      "web-1-sidecar-proxy",
		Cluster: "web",
		Source:  "web",
		Socket:  "/secrets/grpc.sock",
		Token:   redact.New("canary"),
		Admin:   "127.0.0.2:19001",
		Ready:   "127.0.0.1:19101",
	})
	if err != nil {
		t.Fatal(err)
	}
	var file any
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	ads := []any{"dynamic_resources", "ads_config"}
	in := func(base []any, more ...any) []any { return append(append([]any{}, base...), more...) }
	way := []any{"static_resources", "clusters", 0}
	for _, c := range []struct {
		path []any
		want any
	}{
		{[]any{"node", "id"}, "web-1-sidecar-proxy"},
		{[]any{"node", "cluster"}, "web"},
		{[]any{"admin", "address", "socket_address", "address"}, "127.0.0.2"},
		{[]any{"admin", "address", "socket_address", "port_value"}, 19001.0},
		{in(ads, "api_type"), "DELTA_GRPC"},
		{in(ads, "transport_api_version"), "V3"},
		{in(ads, "grpc_services", "envoy_grpc", "cluster_name"), "local_agent"},
		{in(ads, "grpc_services", "initial_metadata", 0, "key"), "x-consul-token"},
		{in(ads, "grpc_services", "initial_metadata", 0, "value"), "canary"},
		{in(way, "name"), "local_agent"},
		{
			in(way, "loadAssignment", "endpoints", 0, "lbEndpoints", 0, "endpoint", "address", "pipe", "path"),
			"/secrets/grpc.sock",
		},
		{[]any{"static_resources", "listeners", 0, "address", "socket_address", "port_value"}, 19101.0},
	} {
		if got := dig(t, file, c.path...); got != c.want {
			t.Errorf("%v is %v, not %v", c.path, got, c.want)
		}
	}
	if n := strings.Count(string(text), "canary"); n != 1 {
		t.Errorf("the token stands there %d times", n)
	}
}

// TestTheProxiesOfAGroupAreAskedAtPortsOfTheirOwn: those of two services differ, and what is no proxy counts for none;
// in the network of the host those of two allocs differ, too.
func TestTheProxiesOfAGroupAreAskedAtPortsOfTheirOwn(t *testing.T) {
	of := func(name string) *job.Service {
		return &job.Service{Name: name, Connect: &job.Connect{SidecarService: &job.SidecarService{}}}
	}
	task := func(service string) *job.Task { return &job.Task{Kind: job.KindOf(job.RoleProxy, service)} }
	g := &job.TaskGroup{Services: []*job.Service{of("a"), {Name: "plain"}, of("b")}}
	for name, want := range map[string]string{
		"a": "127.0.0.2:19001 127.0.0.1:19101",
		"b": "127.0.0.2:19002 127.0.0.1:19102",
	} {
		if got := envoy.AdminOf("a1", g, task(name)) + " " + envoy.ReadyOf("a1", g, task(name)); got != want {
			t.Errorf("the proxy of %s is asked at %s, not %s", name, got, want)
		}
	}
	g.Networks = []*job.NetworkResource{{Mode: "host"}}
	seen := map[string]bool{"127.0.0.1": true, "127.0.0.2": true}
	for _, of := range []ids.Alloc{"a1", "a2", "a3"} {
		admin := netip.MustParseAddrPort(envoy.AdminOf(of, g, task("b")))
		if at := admin.Addr(); !at.IsLoopback() || seen[at.String()] || admin.Port() != 19002 ||
			envoy.AdminOf(of, g, task("b")) != admin.String() || envoy.ReadyOf(of, g, task("b")) != at.String()+":19102" {
			t.Errorf("on the host's loopback that of %s is asked at %s", of, admin)
		}
		seen[admin.Addr().String()] = true
	}
}
