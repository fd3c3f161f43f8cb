package taskenv_test

import (
	"testing"

	"berth/internal/derive/taskenv"
	"berth/internal/model/alloc"
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
