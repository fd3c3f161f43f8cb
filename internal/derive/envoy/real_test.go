package envoy_test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"berth/internal/base/redact"
	"berth/internal/derive/envoy"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/testkit/certificates"
	"berth/internal/testkit/consulagent"
)

// named are names of what Envoy counts, with all that Consul writes into them and without.
var named = []string{
	"cluster.web.default.dc1.internal.11111111-2222.consul.upstream_cx_total",
	"cluster.passthrough~web.default.dc1.internal.11111111-2222.consul.upstream_cx_total",
	"cluster.v1.web.default.dc1.internal.11111111-2222.consul.upstream_cx_total",
	"cluster.web.ns.part.dc1.internal-v1.11111111-2222.consul.upstream_cx_total",
	"cluster.v1.web.ns.part.dc1.internal-v1.11111111-2222.consul.upstream_cx_total",
	"cluster.f8f8f8~v1.web.ns.part.dc1.internal-v1.11111111-2222.consul.upstream_cx_total",
	"cluster.passthrough~f8f8f8~v1.web.ns.part.dc1.internal-v1.11111111-2222.consul.upstream_cx_total",
	"cluster.f8f8f8~web.ns.dc1.internal.11111111-2222.consul.upstream_cx_total",
	"cluster.web.default.east.external.11111111-2222.consul.upstream_cx_total",
	"cluster.web.default.part.east.external.11111111-2222.consul.upstream_cx_total",
	"cluster.web.default.dc1.query.11111111-2222.consul.upstream_cx_total",
	"cluster.local_app.upstream_cx_total",
	"tcp.upstream.web.default.default.dc1.downstream_cx_total",
	"tcp.upstream.web.default.dc1.downstream_cx_total",
	"http.upstream.web.dc1.downstream_rq_total",
	"http.upstream_peered.web.default.east.downstream_rq_total",
	"tcp.upstream_peered.web.east.downstream_cx_total",
	"http.public_listener.downstream_rq_total",
}

// TestEnvoyBeginsAsTheRealConsulWouldHaveIt: the file has all that Consul's own program writes, and nothing else; the
// rules by which labels are found take the same out of each name, and find the same values. Of a Consul that speaks TLS
// there, Consul's program writes whom Envoy is to believe, and no more: by Berth's socket that is the relay's affair.
func TestEnvoyBeginsAsTheRealConsulWouldHaveIt(t *testing.T) {
	real := consulagent.Start(t)
	real.Do(http.MethodPut, "/v1/agent/service/register", map[string]any{
		"ID":      "web-1",
		"Name":    "web",
		"Port":    9001,
		"Connect": map[string]any{"SidecarService": map[string]any{"Port": 21000}},
	}, nil)
	text, err := envoy.Bootstrap(envoy.Config{
		ID:         "web-1-sidecar-proxy",
		Cluster:    "web",
		Source:     "web",
		Socket:     "/secrets/grpc.sock",
		Token:      redact.New("anything"),
		Admin:      "127.0.0.2:19001",
		Ready:      "127.0.0.1:19101",
		Datacenter: "dc1",
	})
	if err != nil {
		t.Fatal(err)
	}
	ours := file(t, text)
	asked := func(more ...string) map[string]any {
		return file(t, real.Output(append([]string{"connect", "envoy", "-bootstrap", "-sidecar-for", "web-1", "-token",
			"anything", "-admin-bind", "127.0.0.2:19001", "-envoy-ready-bind-address", "127.0.0.1",
			"-envoy-ready-bind-port", "19101"}, more...)...))
	}
	theirs := asked("-grpc-addr", "unix:///secrets/grpc.sock")
	ourRules, theirRules := rules(t, ours), rules(t, theirs)
	if len(theirRules) == 0 || len(ourRules) != len(theirRules) {
		t.Fatalf("%d rules, and %d of Consul", len(ourRules), len(theirRules))
	}
	seen := map[string]bool{}
	for i, theirs := range theirRules {
		for _, name := range named {
			got, want := ourRules[i].FindStringSubmatch(name), theirs.FindStringSubmatch(name)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("of %s\n%s takes %q\n%s takes %q", name, ourRules[i], got, theirs, want)
			}
			seen[theirs.String()] = seen[theirs.String()] || want != nil && want[2] != ""
		}
		if !seen[theirs.String()] {
			t.Errorf("no name of the test has what is found by %s", theirs)
		}
	}
	authority := certificates.NewOffice(t, t.TempDir(), "consul").CA
	text, err = os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	secured := asked("-grpc-addr", "https://127.0.0.1:8503", "-grpc-ca-file", authority)
	_ = rules(t, secured)
	way := dig(t, secured, "static_resources", "clusters", 0).(map[string]any)
	believed := dig(t, way, "transport_socket", "typed_config", "common_tls_context", "validation_context")
	if want := (map[string]any{"trusted_ca": map[string]any{"inline_string": string(text)}}); !reflect.DeepEqual(
		believed, want) {
		t.Errorf("of a Consul with TLS Envoy believes %v, not %v", believed, want)
	}
	delete(way, "transport_socket")
	way["loadAssignment"] = dig(t, ours, "static_resources", "clusters", 0, "loadAssignment")
	if !reflect.DeepEqual(ours, secured) {
		t.Errorf("Envoy begins with\n%s\nand with TLS Consul's own program has\n%s", plain(t, ours), plain(t, secured))
	}
	if !reflect.DeepEqual(ours, theirs) {
		t.Errorf("Envoy begins with\n%s\nand Consul's own program has\n%s", plain(t, ours), plain(t, theirs))
	}
}

func file(t *testing.T, text []byte) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

func plain(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rules takes the rules by which labels are found out of a file, whose text may be another where they do the same.
func rules(t *testing.T, file map[string]any) (out []*regexp.Regexp) {
	t.Helper()
	for _, tag := range dig(t, file, "stats_config", "stats_tags").([]any) {
		tag := tag.(map[string]any)
		if text, is := tag["regex"].(string); is {
			out = append(out, regexp.MustCompile(text))
			delete(tag, "regex")
		}
	}
	return out
}

// TestAGatewayInTheHostsNetworkBeginsAsTheRealConsulWouldHaveIt: of each kind, registered as Berth registers it, with the
// places on the host's loopback that are its alloc's own.
func TestAGatewayInTheHostsNetworkBeginsAsTheRealConsulWouldHaveIt(t *testing.T) {
	real := consulagent.Start(t)
	for _, gw := range []*job.Gateway{{Ingress: &job.IngressGateway{}}, {Terminating: &job.TerminatingGateway{}},
		{Mesh: &job.BetweenMeshes{}}} {
		task := &job.Task{Name: "gw", Kind: job.KindOf(gw.Role(), "gateway")}
		g := &job.TaskGroup{
			Name:     "g",
			Networks: []*job.NetworkResource{{Mode: "host"}},
			Services: []*job.Service{{
				Name:      "gateway",
				Provider:  job.ProviderConsul,
				PortLabel: "in",
				Connect:   &job.Connect{Gateway: gw},
			}},
			Tasks: []*job.Task{task},
		}
		a := &alloc.Alloc{ID: "b37c1c4e-8c4f-4a51-9a0e-6d5f0e2d9d11", TaskGroup: "g"}
		a.Resources.Ports = []alloc.PortMapping{{Label: "in", Value: 8443, HostIP: "127.0.0.1"}}
		at := service.Source{Alloc: a, Job: &job.Job{ID: "j", TaskGroups: []*job.TaskGroup{g}}, Node: &node.Node{ID: "n"}}
		all, err := service.ForConsul(at)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		made := all[0].Service
		real.Do(http.MethodPut, "/v1/agent/service/register", map[string]any{
			"ID":      made.ID,
			"Name":    made.Name,
			"Kind":    made.Kind,
			"Address": made.Address,
			"Port":    made.Port,
			"Proxy":   map[string]any{"Config": made.Proxy.Config},
		}, nil)
		var shown struct {
			Kind, Address string
			Port          int
			Proxy         struct{ Config map[string]any }
		}
		id := made.ID
		real.Do(http.MethodGet, "/v1/agent/service/"+id, nil, &shown)
		if shown.Kind != service.ClusterOf(task.Kind) || shown.Address != "127.0.0.1" || shown.Port != 8443 ||
			shown.Proxy.Config["envoy_gateway_no_default_bind"] != nil {
			t.Errorf("Consul has %+v", shown)
		}
		admin, ready := envoy.AdminOf(a.ID, g, task), envoy.ReadyOf(a.ID, g, task)
		text, err := envoy.Bootstrap(envoy.Config{
			ID:         id,
			Cluster:    shown.Kind,
			Source:     "gateway",
			Socket:     "/secrets/grpc.sock",
			Token:      redact.New("anything"),
			Admin:      admin,
			Ready:      ready,
			Datacenter: "dc1",
		})
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := strings.CutSuffix(shown.Kind, "-gateway")
		host, port, err := net.SplitHostPort(ready)
		if err != nil {
			t.Fatal(err)
		}
		ours := file(t, text)
		theirs := file(t, real.Output("connect", "envoy", "-bootstrap", "-gateway", kind, "-proxy-id", id, "-token",
			"anything", "-grpc-addr", "unix:///secrets/grpc.sock", "-admin-bind", admin, "-envoy-ready-bind-address",
			host, "-envoy-ready-bind-port", port))
		if len(rules(t, ours)) != len(rules(t, theirs)) || !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%s: Envoy begins with\n%s\nand Consul's own program has\n%s", kind, plain(t, ours),
				plain(t, theirs))
		}
	}
}

// TestAGatewayBeginsAsTheRealConsulWouldHaveIt: of each kind, with what it is told apart by.
func TestAGatewayBeginsAsTheRealConsulWouldHaveIt(t *testing.T) {
	real := consulagent.Start(t)
	for _, kind := range []string{"ingress", "terminating", "mesh"} {
		real.Do(http.MethodPut, "/v1/agent/service/register", map[string]any{
			"ID":   "gw-" + kind,
			"Name": "gateway",
			"Kind": kind + "-gateway",
			"Port": 8443,
		}, nil)
		text, err := envoy.Bootstrap(envoy.Config{
			ID:         "gw-" + kind,
			Cluster:    kind + "-gateway",
			Source:     "gateway",
			Socket:     "/secrets/grpc.sock",
			Token:      redact.New("anything"),
			Admin:      "127.0.0.2:19001",
			Ready:      "127.0.0.1:19101",
			Datacenter: "dc1",
		})
		if err != nil {
			t.Fatal(err)
		}
		ours := file(t, text)
		theirs := file(t, real.Output("connect", "envoy", "-bootstrap", "-gateway", kind, "-proxy-id", "gw-"+kind,
			"-token", "anything", "-grpc-addr", "unix:///secrets/grpc.sock", "-admin-bind",
			"127.0.0.2:19001", "-envoy-ready-bind-address", "127.0.0.1", "-envoy-ready-bind-port", "19101"))
		if len(rules(t, ours)) != len(rules(t, theirs)) || !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%s: Envoy begins with\n%s\nand Consul's own program has\n%s", kind, plain(t, ours),
				plain(t, theirs))
		}
	}
}
