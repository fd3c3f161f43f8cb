// Package references owns what is said of references in the texts of a job, ${…}, that no node will put a value in the
// place of. Package jobrules imports it.
package references

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/pattern"
	"berth/internal/model/job"
)

// reference is what a node replaces by a value, if it knows the name.
var reference = pattern.Of(`\$\{([^${}]+)\}`)

// portNames begin the names of variables that a port makes; the port's label follows.
var portNames = []string{"NOMAD_HOST_PORT_", "NOMAD_HOST_ADDR_", "NOMAD_HOST_IP_", "NOMAD_ALLOC_PORT_",
	"NOMAD_ALLOC_INTERFACE_", "NOMAD_ALLOC_IP_", "NOMAD_ALLOC_ADDR_", "NOMAD_PORT_",
	"NOMAD_ADDR_", "NOMAD_IP_"}

// ofTask are those of which there is one more for each task, with the task's name in front of the label.
var ofTask = []string{"NOMAD_PORT_", "NOMAD_ADDR_", "NOMAD_IP_"}

// operators make an expression of a reference.
var operators = []string{"==", "!=", "&&", "||", " ? ", " + ", " - ", " * ", " / ", " < ", " > ", " <= ", " >= "}

// In reports whether a text has any.
func In(text string) bool { return reference().MatchString(text) }

// Unknown lists those of a canonical job: it may be run with them, though hardly anybody means it.
func Unknown(j *api.Job) (out []string) {
	for _, g := range j.TaskGroups {
		ports := map[string]bool{}
		for _, n := range g.Networks {
			for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
				ports[job.EnvName(p.Label)] = true
			}
		}
		for _, t := range g.Tasks {
			r := &referrer{at: fmt.Sprintf("group %q: task %q", g.Name, t.Name), env: t.Env, ports: ports}
			for _, other := range g.Tasks {
				r.tasks = append(r.tasks, job.EnvName(other.Name)+"_")
			}
			r.walk("config", t.Config)
			for _, name := range slices.Sorted(maps.Keys(t.Env)) {
				r.text("env "+name, t.Env[name])
			}
			out = append(out, r.found...)
		}
	}
	return out
}

// referrer looks through the texts of one task.
type referrer struct {
	at    string
	env   map[string]string
	ports map[string]bool // labels of the group's ports, as in names of variables
	tasks []string        // what stands in front of a label in the names that tell a task
	found []string
}

func (r *referrer) walk(where string, v any) {
	switch v := v.(type) {
	case string:
		r.text(where, v)
	case []any:
		for _, inner := range v {
			r.walk(where, inner)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			r.walk(where+" "+name, v[name])
		}
	}
}

func (r *referrer) text(where, s string) {
	for _, m := range reference().FindAllStringSubmatch(s, -1) {
		name := strings.TrimSpace(m[1])
		if slices.ContainsFunc(operators, func(op string) bool { return strings.Contains(name, op) }) {
			r.found = append(r.found, fmt.Sprintf("%s: %s: %s stays as it is: nodes put values in the place of "+
				"names, and compute nothing; use a template, or let the task decide", r.at, where, m[0]))
			continue
		}
		name = strings.Trim(strings.TrimSuffix(strings.TrimPrefix(name, "env["), "]"), `"'`)
		if label, ok := r.strange(name); ok {
			r.found = append(r.found, fmt.Sprintf("%s: %s: %s names the port %q, which the group does not have%s", r.at,
				where, m[0], label, r.known()))
		}
	}
}

// strange gives the label of a port that a variable is named after, unless the group has that port.
func (r *referrer) strange(name string) (label string, strange bool) {
	if _, own := r.env[name]; own {
		return "", false
	}
	for _, begin := range portNames {
		label, ok := strings.CutPrefix(name, begin)
		if !ok {
			continue
		}
		if slices.Contains(ofTask, begin) {
			for _, task := range r.tasks {
				if inner, ok := strings.CutPrefix(label, task); ok && r.ports[inner] {
					return "", false
				}
			}
		}
		return label, !r.ports[label]
	}
	return "", false
}

func (r *referrer) known() string {
	if len(r.ports) == 0 {
		return "; it has none"
	}
	return "; it has " + strings.Join(slices.Sorted(maps.Keys(r.ports)), ", ")
}
