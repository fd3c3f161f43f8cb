package taskrunner

import (
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"berth/internal/client/allocdir"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/driver"
)

// EnvSource is all that a task's environment is made from.
type EnvSource struct {
	Bundle alloc.Bundle
	Group  *job.TaskGroup
	Task   *job.Task
	Node   *node.Node
	Region string
	// ParentCgroup is the cgroup below which the cgroups of all tasks lie; empty: the node has none.
	ParentCgroup string
	Dir          allocdir.Dir
	// Isolation decides how the task sees its directories.
	Isolation driver.Isolation
}

// Env is a task's environment and the values that ${…} may name besides it.
type Env struct {
	Vars map[string]string
	node map[string]string
}

// NewEnv builds the environment that does not depend on hooks. Variables of the job win over generated ones.
func NewEnv(s EnvSource) Env {
	e := Env{Vars: map[string]string{}, node: nodeValues(s.Node, s.Region)}
	a, j := s.Bundle.Alloc, s.Bundle.Job
	set := func(name, value string) {
		if value != "" {
			e.Vars["NOMAD_"+name] = value
		}
	}
	set("ALLOC_ID", string(a.ID))
	set("SHORT_ALLOC_ID", string(a.ID[:min(8, len(a.ID))]))
	set("ALLOC_NAME", a.Name)
	set("ALLOC_INDEX", strconv.Itoa(a.Index))
	set("TASK_NAME", s.Task.Name)
	set("GROUP_NAME", s.Group.Name)
	set("JOB_ID", string(j.ID))
	set("JOB_NAME", j.Name)
	set("DC", s.Node.Datacenter)
	set("REGION", s.Region)
	set("NAMESPACE", string(a.Namespace))
	set("PARENT_CGROUP", s.ParentCgroup)
	set("ALLOC_DIR", s.view(s.Dir.SharedDir()))
	set("TASK_DIR", s.view(filepath.Join(s.Dir.TaskDir(s.Task.Name), allocdir.Local)))
	set("SECRETS_DIR", s.view(filepath.Join(s.Dir.TaskDir(s.Task.Name), allocdir.Secrets)))
	e.resources(a.Resources.Tasks[s.Task.Name])
	for k, v := range mergedMeta(j.Meta, s.Group.Meta, s.Task.Meta) {
		name := job.EnvName(k)
		e.Vars["NOMAD_META_"+name] = e.Replace(v)
		e.Vars["NOMAD_META_"+strings.ToUpper(name)] = e.Replace(v)
	}
	e.ports(a.Resources.Ports, s.Task.Name)
	for _, k := range slices.Sorted(maps.Keys(s.Task.Env)) {
		e.Vars[cleanEnv(e.Replace(k))] = e.Replace(s.Task.Env[k])
	}
	return e
}

func (e Env) resources(r alloc.TaskResources) {
	e.Vars["NOMAD_CPU_LIMIT"] = strconv.FormatInt(r.CPUShares, 10)
	e.Vars["NOMAD_MEMORY_LIMIT"] = strconv.FormatInt(r.MemoryMB, 10)
	if r.MemoryMaxMB > 0 {
		e.Vars["NOMAD_MEMORY_MAX_LIMIT"] = strconv.FormatInt(r.MemoryMaxMB, 10)
	}
}

func (e Env) ports(ports []alloc.PortMapping, task string) {
	for _, p := range ports {
		label := job.EnvName(p.Label)
		host := strconv.Itoa(p.Value)
		inside := host
		if p.To > 0 {
			inside = strconv.Itoa(p.To)
		}
		addr := net.JoinHostPort(p.HostIP, host)
		for _, suffix := range []string{label, job.EnvName(task) + "_" + label} {
			e.Vars["NOMAD_IP_"+suffix] = p.HostIP
			e.Vars["NOMAD_PORT_"+suffix] = inside
			e.Vars["NOMAD_ADDR_"+suffix] = addr
		}
		e.Vars["NOMAD_HOST_IP_"+label] = p.HostIP
		e.Vars["NOMAD_HOST_PORT_"+label] = host
		e.Vars["NOMAD_HOST_ADDR_"+label] = addr
		e.Vars["NOMAD_ALLOC_PORT_"+label] = inside
	}
}

// With returns the environment with variables that hooks contributed; those win.
func (e Env) With(vars map[string]string) Env {
	out := Env{Vars: maps.Clone(e.Vars), node: e.node}
	maps.Copy(out.Vars, vars)
	return out
}

// view is how the task sees a directory of its alloc.
func (s EnvSource) view(path string) string {
	if s.Isolation == driver.IsolationNone || s.Isolation == "" {
		return path
	}
	if path == s.Dir.SharedDir() {
		return "/" + allocdir.Shared
	}
	return "/" + filepath.Base(path)
}

func nodeValues(n *node.Node, region string) map[string]string {
	out := map[string]string{
		"node.unique.id": string(n.ID), "node.unique.name": n.Name, "node.datacenter": n.Datacenter,
		"node.class": n.NodeClass, "node.pool": n.NodePool, "node.region": region,
	}
	for k, v := range n.Attributes {
		out["attr."+k] = v
	}
	for k, v := range n.Meta {
		out["meta."+k] = v
	}
	return out
}

func mergedMeta(maps ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// cleanEnv keeps names of variables as users spelled them, except for what no environment can hold.
func cleanEnv(s string) string { return strings.NewReplacer("=", "_", "\x00", "_").Replace(s) }

var reference = regexp.MustCompile(`\$\{([^${}]+)\}`)

// Replace puts values in the place of ${NAME}, ${env["NAME"]}, ${attr.…}, ${meta.…} and ${node.…}. What it does not
// know stays as it is, because shells have variables too.
func (e Env) Replace(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return reference.ReplaceAllStringFunc(s, func(ref string) string {
		if v, ok := e.lookup(strings.TrimSpace(ref[2 : len(ref)-1])); ok {
			return v
		}
		return ref
	})
}

func (e Env) lookup(name string) (string, bool) {
	if inner, ok := strings.CutPrefix(name, "env["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		v, found := e.Vars[strings.Trim(inner, `"'`)]
		return v, ok && found
	}
	if v, ok := e.Vars[name]; ok {
		return v, true
	}
	v, ok := e.node[name]
	return v, ok
}

// all are the names that lookup knows, with their values.
func (e Env) all() map[string]string {
	out := maps.Clone(e.node)
	maps.Copy(out, e.Vars)
	return out
}

// ReplaceAll replaces in every string of a decoded config block; the block itself is not changed.
func (e Env) ReplaceAll(v any) any {
	switch t := v.(type) {
	case string:
		return e.Replace(t)
	case []any:
		out := make([]any, len(t))
		for i, x := range t {
			out[i] = e.ReplaceAll(x)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, x := range t {
			out[k] = e.ReplaceAll(x)
		}
		return out
	}
	return v
}
