package identities

import (
	"cmp"
	"fmt"
	"slices"

	"berth/api"
	"berth/internal/model/job"
	"berth/internal/model/workload"
)

// CanonicalizeService fills in the identity of a service. Task is the one that the service belongs to; empty: the
// group. Its name is the one by which catalogs of services expect it.
func CanonicalizeService(s *api.Service, task string) {
	id := s.Identity
	if id == nil {
		return
	}
	id.Name = cmp.Or(id.Name, workload.ServiceIdentity(task, s.Name, s.PortLabel))
	id.ServiceName = cmp.Or(id.ServiceName, s.Name)
	if id.Env || id.File {
		canonicalIdentity(id)
	}
}

// Service judges the identity of a service. Task is the one that the service belongs to; empty: the group.
func (c Checker) Service(at string, s *api.Service, task string) {
	id := s.Identity
	if id == nil {
		return
	}
	at = fmt.Sprintf("%s: identity %q", at, shorten(id.Name))
	shown := id.Env || id.File
	switch {
	case !identityName().MatchString(id.Name), id.Name == job.DefaultIdentity:
		c("%s: a name has 1 to 128 letters, digits, - and _, and that of a service is not %s", at,
			job.DefaultIdentity)
	case id.ServiceName != s.Name:
		c("%s: service_name is %q, the service is %q; leave it out", at, shorten(id.ServiceName),
			shorten(s.Name))
	case slices.Contains(id.Audience, workload.Audience):
		c("%s: an identity of a service opens nothing here; name others than %s in aud", at, workload.Audience)
	case shown && cmp.Or(task, s.TaskName) == "":
		c("%s: the service belongs to no task that would find it; name one with task in the service, or leave "+
			"out env and file", at)
	case !shown && s.Provider == job.ProviderServers:
		c("%s: the servers ask for no identity of a service; have its task find it by env or file, or remove it",
			at)
	case !shown && id.ChangeMode != "" && id.ChangeMode != "noop":
		c("%s: change_mode is for a task that finds it, by env or file; leave it out", at)
	}
	c.identity(at, id)
}

// shownOf are the identities of services that a task finds.
func shownOf(g *api.TaskGroup, t *api.Task) (out []*api.WorkloadIdentity) {
	of := func(services []*api.Service, own bool) {
		for _, s := range services {
			if s != nil && s.Identity != nil && (s.Identity.Env || s.Identity.File) && (own || s.TaskName == t.Name) {
				out = append(out, s.Identity)
			}
		}
	}
	of(g.Services, false)
	of(t.Services, true)
	return out
}
