package job

import (
	"cmp"
	"slices"
	"strings"

	"berth/internal/base/pattern"
)

// Secret is a variable of the servers whose items the task's texts may name: ${secret.NAME.KEY}.
type Secret struct {
	Name     string
	Provider string // ProviderServers
	Path     string // of the variable
	// Config may say the variable's namespace, which is the job's.
	Config map[string]any `cbor:",omitempty"`
}

// SchemaSecrets is the number of the cluster from which on tasks may have secret blocks.
const SchemaSecrets = 15

// SecretRef is a ${secret.NAME.KEY}.
type SecretRef struct{ Name, Key string }

// Text is what stands in the job, between the braces.
func (r SecretRef) Text() string { return "secret." + r.Name + "." + r.Key }

var secretRef = pattern.Of(`\$\{secret\.([^.${}]+)\.([^${}]+)\}`)

// SecretsIn are the secrets that a text names.
func SecretsIn(text string) (out []SecretRef) {
	for _, m := range secretRef().FindAllStringSubmatch(text, -1) {
		out = append(out, SecretRef{m[1], strings.TrimSpace(m[2])})
	}
	return out
}

// SecretRefs are the secrets that the texts of a task name, each once: of its config, environment, templates and
// artifacts.
func (t *Task) SecretRefs() []SecretRef {
	out := t.TemplateSecrets()
	add := func(text string) { out = append(out, SecretsIn(text)...) }
	eachText(t.Config, add)
	for _, value := range t.Env {
		add(value)
	}
	for _, a := range t.Artifacts {
		add(a.GetterSource)
		for _, m := range []map[string]string{a.GetterOptions, a.GetterHeaders} {
			for _, value := range m {
				add(value)
			}
		}
	}
	slices.SortFunc(out, func(a, b SecretRef) int { return cmp.Compare(a.Text(), b.Text()) })
	return slices.Compact(out)
}

// TemplateSecrets are those that its templates name.
func (t *Task) TemplateSecrets() (out []SecretRef) {
	for _, tmpl := range t.Templates {
		out = append(out, SecretsIn(tmpl.EmbeddedTmpl)...)
	}
	return out
}

func eachText(v any, add func(string)) {
	switch v := v.(type) {
	case string:
		add(v)
	case []any:
		for _, inner := range v {
			eachText(inner, add)
		}
	case map[string]any:
		for _, inner := range v {
			eachText(inner, add)
		}
	}
}

func (j *Job) hasSecrets() bool {
	for _, g := range j.TaskGroups {
		if slices.ContainsFunc(g.Tasks, func(t *Task) bool { return len(t.Secrets) > 0 }) {
			return true
		}
	}
	return false
}
