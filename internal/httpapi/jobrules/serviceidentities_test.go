package jobrules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/httpapi/jobrules"
	"berth/internal/testkit/samplejob"
)

// Given identities of services, then those are taken that somebody gets to see, under a name of their own.
func TestIdentitiesOfServices(t *testing.T) {
	own := []string{"nomadproject.io"}
	for name, c := range map[string]struct {
		identity api.WorkloadIdentity
		task     string
		provider string
		named    string
		wrong    string
	}{
		"found by its task":   {api.WorkloadIdentity{File: true}, "t", "nomad", "consul-service_s-http", ""},
		"found by none":       {api.WorkloadIdentity{File: true}, "", "nomad", "", "no task that would find it"},
		"seen by none":        {api.WorkloadIdentity{}, "", "nomad", "", "the servers ask for no identity"},
		"of another catalog":  {api.WorkloadIdentity{}, "", "consul", "consul-service_s-http", ""},
		"a name of its own":   {api.WorkloadIdentity{Name: "own", Env: true}, "t", "nomad", "own", ""},
		"the default":         {api.WorkloadIdentity{Name: "default", Env: true}, "t", "nomad", "", "is not default"},
		"of another service":  {api.WorkloadIdentity{ServiceName: "x", Env: true}, "t", "nomad", "", "leave it out"},
		"for Berth":           {api.WorkloadIdentity{Audience: own}, "", "consul", "", "opens nothing"},
		"a change of nothing": {api.WorkloadIdentity{ChangeMode: "restart"}, "", "consul", "", "leave it out"},
		"as the task has one": {api.WorkloadIdentity{Name: "own", File: true}, "t", "nomad", "", "too; rename one"},
		"a file elsewhere":    {api.WorkloadIdentity{File: true, Filepath: "../x"}, "t", "nomad", "", "no file of"},
	} {
		j := samplejob.New()
		g := j.TaskGroups[0]
		if name == "as the task has one" {
			g.Tasks[0].Identities = []*api.WorkloadIdentity{{Name: "own", File: true}}
		}
		s := &api.Service{
			Name:      "s",
			PortLabel: "http",
			Provider:  c.provider,
			TaskName:  c.task,
			Identity:  &c.identity,
		}
		g.Services = []*api.Service{s}
		jobrules.Canonicalize(j, "global", "default")
		said := fmt.Sprint(errors.Join(jobrules.Validate(j)...))
		if c.wrong == "" && said != "<nil>" || !strings.Contains(said, c.wrong) {
			t.Errorf("%s: %s, want %q", name, said, c.wrong)
		}
		if c.named != "" && s.Identity.Name != c.named {
			t.Errorf("%s: its name is %q", name, s.Identity.Name)
		}
	}
}
