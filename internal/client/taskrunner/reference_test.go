package taskrunner_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
	"berth/internal/testkit/reference"
)

// Given a task with all that makes variables, then their page names each of them, and no other.
func TestThePageOfTheEnvironmentIsWhole(t *testing.T) {
	s := source(driver.IsolationChroot)
	s.Bundle.Alloc.Name = "j.g[3]"
	s.Bundle.Alloc.Resources.Ports = s.Bundle.Alloc.Resources.Ports[:1] // http
	s.Network = &alloc.NetworkStatus{Interface: "eth0", Address: "172.26.64.2"}
	given := s.Bundle.Alloc.Resources.Tasks[s.Task.Name]
	given.Cores = []uint16{1}
	s.Bundle.Alloc.Resources.Tasks[s.Task.Name] = given
	s.Task.Env, s.Task.Meta = nil, map[string]string{"k": "v"}
	s.Group.Meta, s.Bundle.Job.Meta = nil, nil
	s.Group.Services = []*job.Service{{Connect: &job.Connect{SidecarService: &job.SidecarService{Proxy: &job.Proxy{
		Upstreams: []*job.Upstream{{DestinationName: "peer", LocalBindPort: 1}},
	}}}}}
	forms := strings.NewReplacer("peer", "<service>", "my_task", "<task>", "http", "<label>",
		"META_k", "META_<name>", "META_K", "META_<NAME>")
	var there []string
	for _, name := range slices.Sorted(maps.Keys(envOf(t, s).Vars)) {
		there = append(there, forms.Replace(name))
	}
	p := reference.Open(t, "reference/env.md")
	p.Same("a variable", reference.Column(p.Rows(), 0), there)
}
