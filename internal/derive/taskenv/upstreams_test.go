package taskenv_test

import (
	"testing"

	"berth/internal/derive/taskenv"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// TestTasksFindTheUpstreamsOfTheirProxy: by variables, for all tasks of the group, where the proxy listens for them.
func TestTasksFindTheUpstreamsOfTheirProxy(t *testing.T) {
	g := &job.TaskGroup{Services: []*job.Service{{Connect: &job.Connect{SidecarService: &job.SidecarService{
		Proxy: &job.Proxy{Upstreams: []*job.Upstream{
			{DestinationName: "count-api", LocalBindPort: 8080},
			{DestinationName: "db", LocalBindPort: 5432, LocalBindAddress: "127.0.0.9"},
			{DestinationName: "socket", LocalBindSocketPath: "/s"},
		}},
	}}}}}
	e, err := taskenv.New(taskenv.Source{
		Alloc: &alloc.Alloc{},
		Job:   &job.Job{},
		Group: g,
		Task:  &job.Task{},
		Node:  &node.Node{},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"NOMAD_UPSTREAM_ADDR_count_api": "127.0.0.1:8080",
		"NOMAD_UPSTREAM_IP_count_api":   "127.0.0.1",
		"NOMAD_UPSTREAM_PORT_count_api": "8080",
		"NOMAD_UPSTREAM_ADDR_db":        "127.0.0.9:5432",
		"NOMAD_UPSTREAM_ADDR_socket":    "",
	} {
		if got := e.Vars[name]; got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
}

// TestImagesOfProxiesMayNameTheVersionOfEnvoy: that which Consul knows best, in the metadata of a node and in the
// config of a task; a node whose Consul says none leaves the name as it is.
func TestImagesOfProxiesMayNameTheVersionOfEnvoy(t *testing.T) {
	const own = "registry/envoy:v${NOMAD_envoy_version}"
	for version, want := range map[string]string{"1.35.3": "registry/envoy:v1.35.3", "": own} {
		n := &node.Node{Meta: map[string]string{"connect.sidecar_image": own, "other": own}}
		if version != "" {
			n.Attributes = map[string]string{consul.AttributeEnvoyVersion: version}
		}
		e, err := taskenv.New(taskenv.Source{
			Alloc: &alloc.Alloc{},
			Job:   &job.Job{},
			Group: &job.TaskGroup{},
			Task:  &job.Task{},
			Node:  n,
		})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]string{
			"${meta.connect.sidecar_image}": want,
			own:                             want,
			"${meta.other}":                 own,
		} {
			if got, err := e.Replace(text); err != nil || got != want {
				t.Errorf("version %q: %s is %q, not %q: %v", version, text, got, want, err)
			}
		}
	}
}
