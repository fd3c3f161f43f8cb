package job_test

import (
	"testing"

	"berth/internal/model/job"
)

// TestAKindSaysItsRoleAndItsService: what a task is to the mesh is read of its kind, and a kind that is none gives it
// no part.
func TestAKindSaysItsRoleAndItsService(t *testing.T) {
	for kind, want := range map[job.TaskKind]struct {
		role, service   string
		inMesh, proxies bool
	}{
		"":                   {},
		"connect-proxy:web":  {"connect-proxy", "web", true, true},
		"connect-native:web": {"connect-native", "web", true, false},
		"connect-native:":    {role: "connect-native"},
		"connect-ingress:in": {"connect-ingress", "in", true, true},
		"vip:web":            {service: "web"},
		"connect-proxy":      {role: "connect-proxy"},
	} {
		if kind.Role() != want.role || kind.Service() != want.service || kind.InMesh() != want.inMesh ||
			kind.Proxies() != want.proxies {
			t.Errorf("%q: role %q, service %q, in the mesh %v, a proxy %v", kind, kind.Role(), kind.Service(),
				kind.InMesh(), kind.Proxies())
		}
	}
}

// TestTheTaskOfAGatewayHasItsRole: of each kind of gateway, and none where it is of no kind.
func TestTheTaskOfAGatewayHasItsRole(t *testing.T) {
	for want, g := range map[string]*job.Gateway{
		"connect-ingress":     {Ingress: &job.IngressGateway{}},
		"connect-terminating": {Terminating: &job.TerminatingGateway{}},
		"connect-mesh":        {Mesh: &job.BetweenMeshes{}},
		"":                    {},
	} {
		c := &job.Connect{Gateway: g}
		kind := job.KindOf(c.Role(), "g")
		if c.Role() != want || c.Proxied() != (want != "") || kind.Proxies() != (want != "") {
			t.Errorf("%q: role %q, proxied %v, %q", want, c.Role(), c.Proxied(), kind)
		}
	}
}

// TestTheServiceOfATaskIsTheOneOfItsRole: a task finds its service and the service its task by name and role alike.
func TestTheServiceOfATaskIsTheOneOfItsRole(t *testing.T) {
	web := &job.Service{Name: "web", Connect: &job.Connect{SidecarService: &job.SidecarService{}}}
	plain := &job.Service{Name: "web"}
	proxy := &job.Task{Name: "p", Kind: job.KindOf(job.RoleProxy, "web")}
	stray := &job.Task{Name: "n", Kind: job.KindOf(job.RoleNative, "web")}
	g := &job.TaskGroup{Services: []*job.Service{plain, web}, Tasks: []*job.Task{stray, proxy}}
	if g.ServiceOf(proxy) != web || g.TaskFor(web) != proxy {
		t.Error("the proxy and its service do not find each other")
	}
	if g.ServiceOf(stray) != nil || g.TaskFor(plain) != nil || !g.InMesh() {
		t.Error("a task of another role, or a service without one, was taken for a member")
	}
}
