// Package taskenv owns the environment of a task that follows from its alloc, its job and its node, and what ${…} may
// name besides it. Nodes make it for the tasks that they run, servers for what they derive of them. Nothing here asks
// a machine.
package taskenv

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/model/cores"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Source is all that an environment is made from.
type Source struct {
	Alloc *alloc.Alloc
	Job   *job.Job
	Group *job.TaskGroup
	// Task is nil for what belongs to the group: then nothing names a task or its resources.
	Task   *job.Task
	Node   *node.Node
	Region string
	// ParentCgroup is the cgroup below which the cgroups of all tasks lie; empty: there is none, or it is not known.
	ParentCgroup string
	// Network is the alloc's own; nil: it is on the node's.
	Network *alloc.NetworkStatus
	// MemoryMaxMB is the most memory that the task may take; 0: no more than is reserved for it.
	MemoryMaxMB int64
	// Dirs are the task's directories as it sees them; empty: they are not known.
	Dirs Dirs
	// Secrets are values that ${…} may name and no environment has, by their names.
	Secrets redact.Map
}

// Dirs are directories of a task.
type Dirs struct{ Alloc, Task, Secrets string }

// Env is a task's environment and the values that ${…} may name besides it.
type Env struct {
	Vars map[string]string
	node map[string]string
}

// New builds the environment that does not depend on hooks. Variables of the job win over generated ones. One that
// grows beyond what a process can be given is a fault of kind Invalid that names the variable.
func New(s Source) (Env, error) {
	e := Env{Vars: map[string]string{}, node: nodeValues(s.Node, s.Region)}
	maps.Copy(e.node, s.Secrets.Reveal())
	a, j := s.Alloc, s.Job
	set := func(name, value string) {
		if value != "" {
			e.Vars["NOMAD_"+name] = value
		}
	}
	set("ALLOC_ID", string(a.ID))
	set("SHORT_ALLOC_ID", string(a.ID[:min(8, len(a.ID))]))
	set("ALLOC_NAME", a.Name)
	set("ALLOC_INDEX", strconv.Itoa(a.Index))
	set("GROUP_NAME", s.Group.Name)
	set("JOB_ID", string(j.ID))
	set("JOB_NAME", j.Name)
	set("DC", s.Node.Datacenter)
	set("REGION", s.Region)
	set("NAMESPACE", string(a.Namespace))
	set("PARENT_CGROUP", s.ParentCgroup)
	set("ALLOC_DIR", s.Dirs.Alloc)
	set("TASK_DIR", s.Dirs.Task)
	set("SECRETS_DIR", s.Dirs.Secrets)
	e.upstreams(s.Group)
	if s.Task == nil {
		e.ports(a.Resources.Ports, s.Network, "")
		return e, e.ofJob(mergedMeta(j.Meta, s.Group.Meta), nil)
	}
	set("TASK_NAME", s.Task.Name)
	e.resources(a.Resources.Tasks[s.Task.Name], s.MemoryMaxMB)
	e.ports(a.Resources.Ports, s.Network, s.Task.Name)
	return e, e.ofJob(mergedMeta(j.Meta, s.Group.Meta, s.Task.Meta), s.Task.Env)
}

// ofJob adds what the job says, bounded, since each text may refer to those before it.
func (e Env) ofJob(meta, env map[string]string) error {
	var within job.Env
	if err := within.Copy(e.Vars); err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		name := "NOMAD_META_" + job.EnvName(k)
		for _, n := range []string{name, strings.ToUpper(name)} {
			if err := within.Expand(n, meta[k], e.node); err != nil {
				return err
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		name, err := job.Expand(k, func(n string) (string, bool) { return job.Lookup(n, within.Vars, e.node) },
			job.MaxEnvString)
		if err != nil {
			return fault.Note(err, "name", fmt.Sprintf("variable %.100q", k))
		}
		if err := within.Expand(cleanEnv(name), env[k], e.node); err != nil {
			return err
		}
	}
	maps.Copy(e.Vars, within.Vars)
	return nil
}

func (e Env) resources(r alloc.TaskResources, most int64) {
	e.Vars["NOMAD_CPU_LIMIT"] = strconv.FormatInt(r.CPUShares, 10)
	if len(r.Cores) > 0 {
		e.Vars["NOMAD_CPU_CORES"] = cores.Format(r.Cores)
	}
	e.Vars["NOMAD_MEMORY_LIMIT"] = strconv.FormatInt(r.MemoryMB, 10)
	if most > 0 {
		e.Vars["NOMAD_MEMORY_MAX_LIMIT"] = strconv.FormatInt(most, 10)
	}
}

func (e Env) ports(ports []alloc.PortMapping, own *alloc.NetworkStatus, task string) {
	for _, p := range ports {
		label := job.EnvName(p.Label)
		host := strconv.Itoa(p.Value)
		inside := host
		if p.To > 0 {
			inside = strconv.Itoa(p.To)
		}
		addr := net.JoinHostPort(p.HostIP, host)
		suffixes := []string{label}
		if task != "" {
			suffixes = append(suffixes, job.EnvName(task)+"_"+label)
		}
		for _, suffix := range suffixes {
			e.Vars["NOMAD_IP_"+suffix] = p.HostIP
			e.Vars["NOMAD_PORT_"+suffix] = inside
			e.Vars["NOMAD_ADDR_"+suffix] = addr
		}
		e.Vars["NOMAD_HOST_IP_"+label] = p.HostIP
		e.Vars["NOMAD_HOST_PORT_"+label] = host
		e.Vars["NOMAD_HOST_ADDR_"+label] = addr
		e.Vars["NOMAD_ALLOC_PORT_"+label] = inside
		if own != nil && own.Address != "" {
			e.Vars["NOMAD_ALLOC_INTERFACE_"+label] = own.Interface
			e.Vars["NOMAD_ALLOC_IP_"+label] = own.Address
			e.Vars["NOMAD_ALLOC_ADDR_"+label] = net.JoinHostPort(own.Address, inside)
		}
	}
}

// upstreams says where the proxies of the group reach other services of the mesh for its tasks.
func (e Env) upstreams(g *job.TaskGroup) {
	for _, s := range g.Services {
		if s.Connect == nil || s.Connect.SidecarService == nil || s.Connect.SidecarService.Proxy == nil {
			continue
		}
		for _, u := range s.Connect.SidecarService.Proxy.Upstreams {
			if u.LocalBindPort == 0 {
				continue // it is a socket, whose path the job says
			}
			name := strings.ReplaceAll(job.EnvName(u.DestinationName), "-", "_")
			ip, port := cmp.Or(u.LocalBindAddress, job.Loopback), strconv.Itoa(u.LocalBindPort)
			e.Vars["NOMAD_UPSTREAM_IP_"+name], e.Vars["NOMAD_UPSTREAM_PORT_"+name] = ip, port
			e.Vars["NOMAD_UPSTREAM_ADDR_"+name] = net.JoinHostPort(ip, port)
		}
	}
}

// With returns the environment with variables that hooks contributed; those win.
func (e Env) With(vars map[string]string) Env {
	out := Env{Vars: maps.Clone(e.Vars), node: e.node}
	maps.Copy(out.Vars, vars)
	return out
}

func nodeValues(n *node.Node, region string) map[string]string {
	out := map[string]string{
		"node.unique.id": string(n.ID), "node.unique.name": n.Name, "node.datacenter": n.Datacenter,
		"node.class": n.NodeClass, "node.pool": n.NodePool, "node.region": region,
	}
	for k, v := range n.Attributes {
		out["attr."+k] = v
	}
	envoy := n.Attributes[consul.AttributeEnvoyVersion]
	if envoy != "" {
		out[consul.EnvoyVersion] = envoy
	}
	for k, v := range n.Meta {
		if envoy != "" && strings.HasPrefix(k, "connect.") { // an image of one's own may be of that version
			v = strings.ReplaceAll(v, "${"+consul.EnvoyVersion+"}", envoy)
		}
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

// Replace puts values in the place of ${NAME}, ${env["NAME"]}, ${attr.…}, ${meta.…} and ${node.…}, up to
// job.MaxExpanded. What it does not know stays as it is.
func (e Env) Replace(s string) (string, error) { return job.Expand(s, e.Lookup, job.MaxExpanded) }

// Lookup is what a name within ${…} stands for.
func (e Env) Lookup(name string) (string, bool) { return job.Lookup(name, e.Vars, e.node) }

// All are the names that Lookup knows, with their values.
func (e Env) All() map[string]string {
	out := maps.Clone(e.node)
	maps.Copy(out, e.Vars)
	return out
}

// maxConfig bounds what a config block becomes, in bytes: that of the largest job that is taken.
const maxConfig = 8 << 20

// ReplaceAll replaces in every string of a decoded config block; the block itself is not changed.
func (e Env) ReplaceAll(config map[string]any) (map[string]any, error) {
	r := replacer{env: e, left: maxConfig}
	out, _ := r.replace(config).(map[string]any) // a map stays a map
	return out, r.err
}

// replacer replaces within a bound, until an error.
type replacer struct {
	env  Env
	left int
	err  error
}

func (r *replacer) replace(v any) any {
	switch t := v.(type) {
	case string:
		if r.err != nil {
			return ""
		}
		var s string
		s, r.err = job.Expand(t, r.env.Lookup, min(r.left, job.MaxExpanded))
		r.left = max(0, r.left-len(s))
		return s
	case []any:
		out := make([]any, len(t))
		for i, x := range t {
			out[i] = r.replace(x)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, x := range t {
			out[k] = r.replace(x)
		}
		return out
	}
	return v
}
