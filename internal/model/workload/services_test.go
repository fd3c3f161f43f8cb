package workload_test

import (
	"reflect"
	"testing"
	"time"

	"berth/internal/model/job"
	"berth/internal/model/workload"
)

// TestServicesOfConsulAreGivenIdentities: each that has none, by a name of its own, and those that the job shares with
// others are left alone; a second time changes nothing.
func TestServicesOfConsulAreGivenIdentities(t *testing.T) {
	own := &job.WorkloadIdentity{Name: "own"}
	shared := &job.Service{Name: "web", Provider: job.ProviderConsul, PortLabel: "http"}
	j := &job.Job{TaskGroups: []*job.TaskGroup{{
		Services: []*job.Service{shared, {Name: "own", Provider: job.ProviderConsul, Identity: own}},
		Tasks: []*job.Task{{Name: "db", Services: []*job.Service{
			{Name: "a.b", Provider: job.ProviderConsul}, {Name: "servers", Provider: job.ProviderServers},
		}}},
	}}}
	meant := &job.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: time.Hour}
	workload.Meant{Services: meant}.Give(j)
	g := j.TaskGroups[0]
	for i, c := range []struct {
		s    *job.Service
		want *job.WorkloadIdentity
	}{
		{g.Services[0], &job.WorkloadIdentity{Name: "consul-service_web-http", Audience: []string{"consul.io"},
			TTL: time.Hour, ServiceName: "web"}},
		{g.Services[1], own},
		{g.Tasks[0].Services[0], &job.WorkloadIdentity{Name: "consul-service_db-a_b", Audience: []string{"consul.io"},
			TTL: time.Hour, ServiceName: "a.b"}},
		{g.Tasks[0].Services[1], nil},
	} {
		if !reflect.DeepEqual(c.s.Identity, c.want) {
			t.Errorf("%d: %s has %+v, want %+v", i, c.s.Name, c.s.Identity, c.want)
		}
	}
	if shared.Identity != nil || meant.Name != "" {
		t.Error("what is shared was changed")
	}
	before := g.Services[0].Identity
	workload.Meant{Services: meant}.Give(j)
	workload.Meant{}.Give(j)
	if j.TaskGroups[0].Services[0].Identity != before {
		t.Error("it got another one")
	}
}

// TestTasksBesideServicesOfConsulAreGivenAnIdentityForIt: each that has none of that name; not the proxies of the mesh,
// which act as their service, nor tasks of groups that have nothing in Consul, unless their templates read it.
func TestTasksBesideServicesOfConsulAreGivenAnIdentityForIt(t *testing.T) {
	own := &job.WorkloadIdentity{Name: workload.ForConsul, TTL: time.Minute}
	other := &job.WorkloadIdentity{Name: "vault"}
	shared := &job.Task{Name: "app", Identities: []*job.WorkloadIdentity{other}}
	j := &job.Job{TaskGroups: []*job.TaskGroup{
		{
			Services: []*job.Service{{Name: "web", Provider: job.ProviderConsul}},
			Tasks: []*job.Task{
				shared,
				{Name: "own", Identities: []*job.WorkloadIdentity{own}},
				{Name: "proxy", Kind: job.KindOf(job.RoleProxy, "web")},
			},
		},
		{Tasks: []*job.Task{{Name: "alone"}, {Name: "reads", Templates: []*job.Template{
			{EmbeddedTmpl: `{{ key "of the servers" }}`, LeftDelim: "[[", RightDelim: "]]"},
			{EmbeddedTmpl: `[[ key "a" ]]`, LeftDelim: "[[", RightDelim: "]]"},
		}}}},
	}}
	meant := workload.Meant{Tasks: &job.WorkloadIdentity{Audience: []string{"consul.io"}}}
	for range 2 {
		meant.Give(j)
		tasks := j.TaskGroups[0].Tasks
		given := tasks[0].Identities
		if len(given) != 2 || given[0] != other || given[1].Name != workload.ForConsul ||
			given[1].Audience[0] != "consul.io" {
			t.Errorf("it has %+v", given)
		}
		if len(tasks[1].Identities) != 1 || tasks[1].Identities[0] != own || len(tasks[2].Identities) != 0 ||
			len(j.TaskGroups[1].Tasks[0].Identities) != 0 {
			t.Error("others have some, too")
		}
	}
	if given := j.TaskGroups[1].Tasks[1].Identities; len(given) != 1 || given[0].Name != workload.ForConsul {
		t.Errorf("who reads Consul has %+v", given)
	}
	if len(shared.Identities) != 1 || meant.Tasks.Name != "" {
		t.Error("what is shared was changed")
	}
}
