package workload

import (
	"slices"
	"strings"

	"berth/internal/base/pattern"
	"berth/internal/base/render"
	"berth/internal/model/job"
)

// noName are the characters that names of identities have not.
var noName = pattern.Of(`[^a-zA-Z0-9-_]`)

// ServiceIdentity is the name of the identity of a service that says none: the one by which catalogs of services expect
// it. Task is the one that the service belongs to; empty: the group.
func ServiceIdentity(task, service, port string) string {
	parts := slices.DeleteFunc([]string{task, service, port}, func(part string) bool { return part == "" })
	name := "consul-service_" + noName().ReplaceAllString(strings.Join(parts, "-"), "_")
	return name[:min(len(name), 128)]
}

// Meant are the identities for Consul of those whose job says none; nil: they have none.
type Meant struct {
	Services *job.WorkloadIdentity // of services of Consul
	Tasks    *job.WorkloadIdentity // of the tasks of groups with such services, but for the proxies of the mesh
}

// Give gives them to a job. What it shares with others stays as it is.
func (m Meant) Give(j *job.Job) {
	if m.Services == nil && m.Tasks == nil {
		return
	}
	give := func(task string, all []*job.Service) []*job.Service {
		out := slices.Clone(all)
		for i, s := range out {
			if m.Services == nil || s.Identity != nil || s.Provider != job.ProviderConsul {
				continue
			}
			given, id := *s, *m.Services
			id.Name, id.ServiceName = ServiceIdentity(task, s.Name, s.PortLabel), s.Name
			given.Identity = &id
			out[i] = &given
		}
		return out
	}
	j.TaskGroups = slices.Clone(j.TaskGroups)
	for i, g := range j.TaskGroups {
		group := *g
		group.Services = give("", g.Services)
		group.Tasks = slices.Clone(g.Tasks)
		for n, t := range group.Tasks {
			task := *t
			task.Services = give(t.Name, t.Services)
			if m.Tasks != nil && (g.AsksConsul() || ReadsConsul(t)) && !t.Kind.Proxies() && !hasForConsul(t) {
				id := *m.Tasks
				id.Name = ForConsul
				task.Identities = append(slices.Clone(t.Identities), &id)
			}
			group.Tasks[n] = &task
		}
		j.TaskGroups[i] = &group
	}
}

func hasForConsul(t *job.Task) bool {
	return slices.ContainsFunc(t.Identities, func(id *job.WorkloadIdentity) bool { return id.Name == ForConsul })
}

// ReadsConsul reports whether a template of a task, as the job has it, reads Consul. What is in a file that is yet to
// come is not known.
func ReadsConsul(t *job.Task) bool {
	return slices.ContainsFunc(t.Templates, func(tmpl *job.Template) bool {
		return render.ReadsConsul(render.Template{
			Text:  tmpl.EmbeddedTmpl,
			Left:  tmpl.LeftDelim,
			Right: tmpl.RightDelim,
		})
	})
}
