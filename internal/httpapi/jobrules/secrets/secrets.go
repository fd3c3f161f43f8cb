// Package secrets owns the rules of secret blocks in jobs. Package jobrules imports it.
package secrets

import (
	"maps"
	"slices"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/base/pattern"
	"berth/internal/model/job"
	"berth/internal/model/variable"
)

// most is how many a task may have: each is asked for before each start.
const most = 16

var name = pattern.Of(`^[a-zA-Z0-9_-]{1,128}$`)

// Checker says what is wrong.
type Checker func(format string, args ...any)

// Task judges the secrets of a task, and what its texts say of them.
func (c Checker) Task(at string, j *api.Job, g *api.TaskGroup, t *api.Task) {
	if len(t.Secrets) > most {
		c("%s: it has %d secret blocks, at most %d are taken", at, len(t.Secrets), most)
		return
	}
	had := map[string]bool{}
	for _, s := range t.Secrets {
		if s == nil {
			continue
		}
		c.secret(at, j, g, t, s)
		if had[s.Name] {
			c("%s: it has two secrets named %q; rename one", at, s.Name)
		}
		had[s.Name] = true
	}
	for _, ref := range refs(t) {
		if !had[ref.Name] {
			c("%s: ${%s} names the secret %q, which the task does not have%s", at, ref.Text(), ref.Name, known(had))
		}
	}
}

func (c Checker) secret(at string, j *api.Job, g *api.TaskGroup, t *api.Task, s *api.Secret) {
	if !name().MatchString(s.Name) {
		c("%s: secret %q: a name has 1 to 128 letters, digits, - and _", at, s.Name)
		return
	}
	switch {
	case s.Provider == "":
		c("%s: secret %q: missing provider; write provider = %q: a variable of the servers", at, s.Name,
			job.ProviderServers)
	case s.Path == "":
		c("%s: secret %q: missing path: of the variable, such as nomad/jobs/%s", at, s.Name, *j.ID)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Config)) {
		if key != "namespace" {
			c("%s: secret %q: config has no %q; there is namespace", at, s.Name, key)
		} else if ns, is := s.Config[key].(string); !is || ns != *j.Namespace {
			c("%s: secret %q: a task reads the variables of its own namespace, which is %q; leave it out", at, s.Name,
				*j.Namespace)
		}
	}
	own := variable.Workload{
		Namespace: ids.Namespace(*j.Namespace),
		Job:       ids.Job(*j.ID),
		Group:     g.Name,
		Task:      t.Name,
	}
	// What is launched from this job has an id of its own, and reads what lies at its own paths.
	if launches := j.Periodic != nil || j.ParameterizedJob != nil; s.Path != "" && !launches &&
		!slices.Contains(own.Paths(), s.Path) {
		c("%s: secret %q: a task reads the variables of its own job; put it at one of %v, not at %q", at, s.Name,
			own.Paths(), s.Path)
	}
}

// refs are what the texts of a task name.
func refs(t *api.Task) []job.SecretRef {
	as := &job.Task{Config: t.Config, Env: t.Env}
	for _, tmpl := range t.Templates {
		if tmpl != nil && tmpl.EmbeddedTmpl != nil {
			as.Templates = append(as.Templates, &job.Template{EmbeddedTmpl: *tmpl.EmbeddedTmpl})
		}
	}
	for _, a := range t.Artifacts {
		if a != nil && a.GetterSource != nil {
			as.Artifacts = append(as.Artifacts, &job.Artifact{
				GetterSource:  *a.GetterSource,
				GetterOptions: a.GetterOptions,
				GetterHeaders: a.GetterHeaders,
			})
		}
	}
	return as.SecretRefs()
}

func known(had map[string]bool) string {
	if len(had) == 0 {
		return "; it has none"
	}
	text := "; it has "
	for i, name := range slices.Sorted(maps.Keys(had)) {
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}
