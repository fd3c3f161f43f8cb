package service_test

import (
	"reflect"
	"testing"
	"time"

	"berth/internal/derive/service"
	"berth/internal/model/job"
)

// TestAGatewayIsRegisteredAsWhatItIs: given a gateway of each kind, then Consul has one service of that kind, before
// anything of its alloc runs, which listens within the network of the alloc, and whose task is known by its id.
func TestAGatewayIsRegisteredAsWhatItIs(t *testing.T) {
	everywhere := map[string]any{"default": map[string]any{"Address": "0.0.0.0", "Port": 9001}}
	for kind, c := range map[string]struct {
		gateway *job.Gateway
		timeout int64
		binds   map[string]any
		tagged  int
	}{
		"ingress-gateway": {&job.Gateway{Ingress: &job.IngressGateway{}}, 5000, everywhere, 0},
		"terminating-gateway": {
			&job.Gateway{
				Terminating: &job.TerminatingGateway{},
				Proxy: &job.GatewayProxy{
					ConnectTimeout:                  time.Second,
					EnvoyDNSDiscoveryType:           "STRICT_DNS",
					EnvoyGatewayBindTaggedAddresses: true,
					EnvoyGatewayBindAddresses:       map[string]*job.BindAddress{"a": {Address: "10.0.0.9", Port: 7}},
				},
			},
			1000, map[string]any{"a": map[string]any{"Address": "10.0.0.9", "Port": 7}}, 0,
		},
		"mesh-gateway": {&job.Gateway{Mesh: &job.BetweenMeshes{}}, 5000, everywhere, 2},
	} {
		s, _ := inMesh(nil)
		g := s.Job.TaskGroups[0]
		g.Services[0].Connect = &job.Connect{Gateway: c.gateway}
		task := &job.Task{Kind: job.KindOf(c.gateway.Role(), "web")}
		g.Tasks = []*job.Task{task}
		all, err := service.ForConsul(s)
		if err != nil || len(all) != 1 || !all[0].Early() {
			t.Fatalf("%s: %+v, %v", kind, all, err)
		}
		out := all[0].Service
		if out.Kind != kind || out.Name != "web" || len(out.TaggedAddresses) != c.tagged ||
			out.Proxy.DestinationServiceName != "" {
			t.Errorf("%s: %+v", kind, out)
		}
		if got := out.Proxy.Config; got["connect_timeout_ms"] != c.timeout ||
			got["envoy_gateway_no_default_bind"] != true ||
			!reflect.DeepEqual(got["envoy_gateway_bind_addresses"], c.binds) {
			t.Errorf("%s: %v", kind, got)
		}
		if got := out.Proxy.Config; kind == "terminating-gateway" &&
			(got["envoy_dns_discovery_type"] != "STRICT_DNS" || got["envoy_gateway_bind_tagged_addresses"] != true) {
			t.Errorf("%s: %v", kind, got)
		}
		if checks := all[0].Checks; len(checks) != 1 || checks[0].TCP == "" {
			t.Errorf("%s: %+v", kind, checks)
		}
		of, proxy, err := service.ProxyOf(s, task)
		if err != nil || of != out.ID || proxy != out.ID || service.ClusterOf(task.Kind) != kind {
			t.Errorf("%s: its task is %q of %q, %v", kind, proxy, of, err)
		}
		g.Services[0].PortLabel = ""
		if all, err := service.ForConsul(s); err == nil {
			t.Errorf("%s without a port: %+v", kind, all)
		}
	}
	if got := service.ClusterOf(job.KindOf(job.RoleProxy, "web")); got != "web" {
		t.Errorf("a sidecar works for %q", got)
	}
}

// TestAGatewayInTheHostsNetworkListensAsConsulHasIt: at the address and port of its service, which are that network's,
// and where its job says; so it does only there when its job says that, too.
func TestAGatewayInTheHostsNetworkListensAsConsulHasIt(t *testing.T) {
	at := map[string]*job.BindAddress{"a": {Address: "10.0.0.9", Port: 7}}
	for name, c := range map[string]struct {
		proxy *job.GatewayProxy
		want  map[string]any
	}{
		"nothing said": {nil, map[string]any{"connect_timeout_ms": int64(5000)}},
		"elsewhere, too": {
			&job.GatewayProxy{EnvoyGatewayBindAddresses: at},
			map[string]any{
				"connect_timeout_ms":           int64(5000),
				"envoy_gateway_bind_addresses": map[string]any{"a": map[string]any{"Address": "10.0.0.9", "Port": 7}},
			},
		},
		"elsewhere": {
			&job.GatewayProxy{EnvoyGatewayNoDefaultBind: true, EnvoyGatewayBindAddresses: at},
			map[string]any{
				"connect_timeout_ms":            int64(5000),
				"envoy_gateway_no_default_bind": true,
				"envoy_gateway_bind_addresses":  map[string]any{"a": map[string]any{"Address": "10.0.0.9", "Port": 7}},
			},
		},
	} {
		for _, mode := range []string{"", "host"} {
			s, side := inMesh(nil)
			g := s.Job.TaskGroups[0]
			g.Networks = []*job.NetworkResource{{Mode: mode}}
			g.Services[0].PortLabel = side.Port
			g.Services[0].Connect = &job.Connect{Gateway: &job.Gateway{Mesh: &job.BetweenMeshes{}, Proxy: c.proxy}}
			all, err := service.ForConsul(s)
			if err != nil || len(all) != 1 {
				t.Fatalf("%s: %+v, %v", name, all, err)
			}
			out := all[0].Service
			if out.Address != "10.0.0.7" || out.Port != 21000 || out.TaggedAddresses["wan"].Port != 21000 ||
				!reflect.DeepEqual(out.Proxy.Config, c.want) {
				t.Errorf("%s: it is at %s:%d (%v), and listens by %v", name, out.Address, out.Port, out.TaggedAddresses,
					out.Proxy.Config)
			}
		}
	}
}
