package servicesync_test

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/client/servicesync"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// TestAProxyIsRegisteredBeforeItsAllocRunsAndTakenOutFirst: given an alloc that waits for its proxy, then Consul has
// the service and the proxy beside it, which is what the proxy's task waits for; a proxy-defaults of an operator is no
// reason to register again; and at the end the proxy is taken out before the service behind it.
func TestAProxyIsRegisteredBeforeItsAllocRunsAndTakenOutFirst(t *testing.T) {
	r := newRig(t)
	s := web()
	s.PortLabel = "9001"
	s.Connect = &job.Connect{SidecarService: &job.SidecarService{Port: "p"}}
	r.run("web", s)
	r.change("web", func(was *servicesync.Served) {
		g := was.Bundle.Job.TaskGroups[0]
		g.Services, g.Tasks[0].Services = []*job.Service{s}, nil
		g.Tasks = append(g.Tasks, &job.Task{Name: "proxy", Kind: job.KindOf(job.RoleProxy, "web")})
		s.Checks[0].TaskName = "t"
		was.Bundle.Alloc.Resources.Ports = []alloc.PortMapping{{Label: "p", Value: 21000, HostIP: "10.0.0.9"}}
		was.Report.ClientStatus, was.Report.TaskStates = alloc.ClientPending, nil
	})
	var id string
	r.real.Until("both are registered", func() bool {
		all := r.real.Catalog("web-sidecar-proxy")
		if len(all) == 1 {
			id = strings.TrimSuffix(all[0].ServiceID, "-sidecar-proxy")
		}
		return len(all) == 1 && len(r.real.Catalog("web")) == 1
	})
	for _, one := range []string{id, service.SidecarID(id)} {
		r.real.Until("our agent knows that "+one+" is", func() bool { return r.keeper.Registered(one) == nil })
	}
	if err := r.keeper.Registered("another"); err == nil || !strings.Contains(err.Error(), "not registered") {
		t.Errorf("a service that there is not is registered: %v", err)
	}
	r.real.Do("PUT", "/v1/config", map[string]any{
		"Kind":   "proxy-defaults",
		"Name":   "global",
		"Config": map[string]any{"local_connect_timeout_ms": 777},
	}, nil)
	r.restart()
	r.real.Until("the next agent knows it", func() bool { return r.keeper.Registered(service.SidecarID(id)) == nil })
	if n := r.real.Proxy.Registrations(id); n != 2 {
		t.Errorf("they were registered %d times", n)
	}
	r.change("web", func(was *servicesync.Served) { was.Stopping = true })
	r.real.Until("both are gone", func() bool {
		return len(r.real.Catalog("web")) == 0 && len(r.real.Catalog("web-sidecar-proxy")) == 0
	})
	seen := r.real.Proxy.Seen()
	first := slices.IndexFunc(seen, func(s string) bool { return strings.Contains(s, "deregister/"+id) })
	if first < 0 || !strings.Contains(seen[first], "-sidecar-proxy") {
		t.Errorf("the service went before its proxy: %q", seen)
	}
}
