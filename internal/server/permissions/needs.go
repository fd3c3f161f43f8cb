package permissions

import (
	"cmp"
	"fmt"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/job"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// need is what a person has to have.
type need struct {
	wire.Need
	// ownJob is a job whose own tasks have it without a rule; empty: of none.
	ownJob ids.Job
	untold bool // the namespace is that of an object which the caller named by its id alone: a refusal does not tell it
	// byID: it is for an object that there is, and that was named by its id. Whoever may do nothing in its namespace is
	// answered as if there were none.
	byID bool
	says acl.Capability // what a refusal that is untold names; empty: the first of Any
}

// met tells that a caller has what is needed.
func (n need) met(v *Caller) bool {
	switch {
	case n.Somewhere:
		return v.Rules.AllowsSomewhere(n.Kind, n.Any...)
	case n.Variable != "":
		return v.MayVariable(ids.Namespace(n.Name), n.Variable, n.Any[0])
	case n.ownJob != "" && v.Workload != nil && v.Workload.Job == n.ownJob && string(v.Workload.Namespace) == n.Name:
		return true
	}
	return slices.ContainsFunc(n.Any, func(c acl.Capability) bool { return v.Rules.AllowsOn(n.Kind, n.Name, c) })
}

// String says what is needed, for refusals.
func (n need) String() string {
	switch {
	case n.untold:
		return fmt.Sprintf("%s in the namespace of what is asked for", cmp.Or(n.says, n.Any[0]))
	case n.Kind == wire.Management:
		return "management token"
	case n.Variable != "":
		return fmt.Sprintf("%s of variable %q in namespace %q", n.Any[0], n.Variable, n.Name)
	case n.Somewhere:
		return fmt.Sprintf("%s in any %s", n.Any[0], n.Kind)
	case n.Name == "":
		return fmt.Sprintf("%s of %s", n.Any[0], n.Kind)
	}
	return fmt.Sprintf("%s in %s %q", n.Any[0], n.Kind, n.Name)
}

// everything is needed where one would do for nothing less.
func everything() []need {
	return []need{{Need: wire.Need{Kind: wire.Management, Any: []acl.Capability{acl.Write}}}}
}

// of needs one of the capabilities for what has no names.
func of(kind acl.Kind, any ...acl.Capability) []need {
	return []need{{Need: wire.Need{Kind: kind, Any: any}}}
}

// in needs one of the capabilities in a namespace.
func in(ns ids.Namespace, any ...acl.Capability) []need {
	return []need{{Need: wire.Need{Kind: acl.Namespace, Name: string(ns), Any: any}}}
}

// onPool needs one of the capabilities for a node pool.
func onPool(pool string, any ...acl.Capability) []need {
	return []need{{Need: wire.Need{Kind: acl.NodePool, Name: pool, Any: any}}}
}

// listed is in for a list. Of one over several namespaces nothing is needed: it shows what the caller may see.
func listed(ns ids.Namespace, any ...acl.Capability) []need {
	if ns == "" || ns == wire.AllNamespaces {
		return nil
	}
	return in(ns, any...)
}

// inThat is in for an object that is known by its id alone: its own namespace counts. What is not there is judged by
// the namespace that was named, so that who may not look hears nothing of what there is.
func inThat(own, named ids.Namespace, there bool, any ...acl.Capability) []need {
	if !there {
		return in(named, any...)
	}
	n := in(own, any...)
	n[0].untold, n[0].byID = own != named, true
	return n
}

func ofAlloc(s *state.Snap, id ids.Alloc, named ids.Namespace, any ...acl.Capability) []need {
	a := s.Alloc(nil, id)
	if a == nil {
		return in(named, any...)
	}
	return inThat(a.Namespace, named, true, any...)
}

func ofEval(s *state.Snap, id ids.Eval, named ids.Namespace, any ...acl.Capability) []need {
	e := s.Eval(nil, id)
	if e == nil {
		return in(named, any...)
	}
	return inThat(e.Namespace, named, true, any...)
}

func ofDeployment(s *state.Snap, id ids.Deployment, named ids.Namespace, any ...acl.Capability) []need {
	d := s.Deployment(nil, id)
	if d == nil {
		return in(named, any...)
	}
	return inThat(d.Namespace, named, true, any...)
}

// onNode is for what a node is asked about an alloc. Of allocs that the state does not know nodes may know more: those
// are of any namespace, and so is what another node than the alloc's has under its id. A refusal does not tell which it
// was, but to those who may see the namespace.
func onNode(s *state.Snap, ref wire.AgentRef, any ...acl.Capability) []need {
	a := s.Alloc(nil, ref.Alloc)
	if a == nil || ref.Node != "" && ref.Node != a.Node {
		n := everything()
		n[0].untold, n[0].says = true, any[0]
		return n
	}
	n := in(a.Namespace, any...)
	n[0].byID = true
	return n
}

// uses are what a job needs beside the right to run it: its volumes, its directories of nodes, its plugins.
func uses(j *job.Job) []need {
	var out []need
	for _, g := range j.TaskGroups {
		for _, v := range g.CSIVolumes() {
			out = append(out, in(j.Namespace, acl.CSIMountVolume)...)
			if v.Create != nil {
				out = append(out, in(j.Namespace, acl.CSIWriteVolume)...)
			}
		}
		for _, v := range g.HostVolumes() {
			out = append(out, usesHostVolume(v))
		}
		for _, t := range g.Tasks {
			if t.CSIPluginConfig != nil {
				out = append(out, in(j.Namespace, acl.CSIRegisterPlugin)...)
			}
		}
	}
	return out
}

func usesHostVolume(v *job.VolumeRequest) need {
	n := need{Need: wire.Need{Kind: acl.HostVolume, Name: v.Source, Any: []acl.Capability{acl.MountReadWrite}}}
	if v.ReadOnly {
		n.Any = []acl.Capability{acl.MountReadOnly, acl.MountReadWrite}
	}
	return n
}
