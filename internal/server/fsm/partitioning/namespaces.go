// Package partitioning owns the commands that write namespaces and node pools. Whether one may be deleted is asked
// where that is applied: by then nothing may be in it. Only packages of the server import it.
package partitioning

import (
	"fmt"
	"reflect"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/partition"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/collection"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
	"berth/internal/wire"
)

func init() {
	fsm.Register[NamespacePut]("namespace-put", partitions.Schema, "server/endpoint/partitions")
	fsm.Register[NamespaceDelete]("namespace-delete", partitions.Schema, "server/endpoint/partitions")
	fsm.Register[NodePoolPut]("node-pool-put", partitions.Schema, "server/endpoint/partitions")
	fsm.Register[NodePoolDelete]("node-pool-delete", partitions.Schema, "server/endpoint/partitions")
}

// maxNamespaces bounds the namespaces, so that they take some 50 MiB of the servers' memory at most.
const maxNamespaces = 2000

// NamespacePut writes a namespace: a new one, or in place of the one of its name. Jobs that are registered stay as they
// are; what it lets jobs use is asked when one is registered.
type NamespacePut struct{ Namespace *partition.Namespace }

// Apply returns the stored *partition.Namespace. One that is there already, word by word, stays as it is.
func (c *NamespacePut) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	n := c.Namespace
	if err := n.Validate(); err != nil {
		return nil, err
	}
	old := tx.Namespace(nil, n.Name)
	if old == nil && len(slices.Collect(tx.Namespaces(nil, ""))) >= maxNamespaces {
		return nil, fault.WithHint(fault.New(fault.Invalid, "make", fmt.Sprintf("namespace %q", n.Name),
			fmt.Sprintf("there are %d already, which is the bound", maxNamespaces)), "delete some")
	}
	if n.Pools != nil && n.Pools.Default != "" && !partitions.HasPool(&tx.Snap, n.Pools.Default) {
		return nil, fault.WithHint(fault.New(fault.Invalid, "write", fmt.Sprintf("namespace %q", n.Name),
			fmt.Sprintf("its default node pool %q does not exist", n.Pools.Default)),
			"make it first: berth node pool apply "+n.Pools.Default)
	}
	if old != nil {
		n.CreateIndex, n.ModifyIndex = old.CreateIndex, old.ModifyIndex
		if reflect.DeepEqual(old, n) {
			return old, nil
		}
	}
	tx.PutNamespace(n)
	return n, nil
}

// NamespaceDelete removes a namespace in which nothing goes on and nothing is kept, with what it remembers of jobs that
// are over.
type NamespaceDelete struct{ Name ids.Namespace }

// Apply returns nil.
func (c *NamespaceDelete) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	n := tx.Namespace(nil, c.Name)
	switch {
	case n == nil: // by the words and the status that clients of the API know
		return nil, fault.New(fault.Conflict, "", "", "namespace not found")
	case n.BuiltIn():
		return nil, fault.New(fault.Invalid, "delete", fmt.Sprintf("namespace %q", c.Name), "every cluster has it")
	}
	u := &use{s: &tx.Snap, ns: c.Name}
	if err := u.refuse(); err != nil {
		return nil, err
	}
	collection.ForgetNamespace(tx, c.Name)
	tx.DeleteNamespace(c.Name)
	return nil, nil
}

// Releases is true: it takes something away.
func (c *NamespaceDelete) Releases() bool { return true }

// use is what is in a namespace and has to go before it.
type use struct {
	s  *state.Snap
	ns ids.Namespace
}

func (u *use) in(what string, names []string, hint string) error {
	return fault.WithHint(fault.New(fault.Busy, "delete", fmt.Sprintf("namespace %q", u.ns),
		fmt.Sprintf("it has %s: %s", what, partitions.Names(names))), hint)
}

// refuse names what is in the way, and how it goes: the jobs first, since the rest ends with them.
func (u *use) refuse() error {
	if jobs := u.jobs(); len(jobs) > 0 {
		return u.in("non-terminal jobs", jobs, "stop them: berth job stop "+ids.Typed(u.ns, jobs[0]))
	}
	if allocs, hint := u.allocs(); len(allocs) > 0 {
		return u.in("non-terminal allocations", allocs, hint)
	}
	if volumes := u.volumes(); len(volumes) > 0 {
		return u.in("volumes", volumes, "delete them, with what is on them: berth volume delete "+
			ids.Typed(u.ns, volumes[0])+"; or keep that, and forget them: berth volume deregister "+
			ids.Typed(u.ns, volumes[0]))
	}
	var snapshots []string
	for sn := range u.s.VolumeSnapshots(nil) {
		if sn.Namespace == u.ns {
			snapshots = append(snapshots, sn.Name)
		}
	}
	if len(snapshots) > 0 {
		return u.in("snapshots of volumes", snapshots, `delete them, with "berth volume snapshot delete"`)
	}
	var paths []string
	for v := range u.s.Variables(nil, u.ns, "") {
		paths = append(paths, v.Path)
	}
	if len(paths) > 0 {
		return u.in("variables", paths, "delete them: berth var purge "+ids.Typed(u.ns, paths[0]))
	}
	var claims []string
	for cl := range u.s.Claims(nil) {
		if cl.Volume.Namespace == u.ns {
			claims = append(claims, fmt.Sprintf("%s of allocation %s", cl.Volume.ID, ids.Short(cl.Alloc)))
		}
	}
	if len(claims) > 0 {
		return u.in("claims of volumes", claims, "wait until their nodes have released them, or see what keeps them: "+
			"berth volume status")
	}
	return nil
}

func (u *use) jobs() []string {
	var out []string
	for j := range u.s.Jobs(nil, u.ns, "") {
		over := collection.JobOver(u.s, collection.JobName{Namespace: j.Namespace, Job: j.ID})
		if !over && !u.held(j.ID, j.Stop) {
			out = append(out, string(j.ID))
		}
	}
	for e := range u.s.OpenEvals(nil) { // of a job that was purged
		if e.Namespace == u.ns && !slices.Contains(out, string(e.Job)) {
			out = append(out, string(e.Job))
		}
	}
	return out
}

// held tells that a job was stopped, and that nothing but its allocs keeps it from being over.
func (u *use) held(id ids.Job, stopped bool) bool {
	for e := range u.s.EvalsByJob(nil, u.ns, id) {
		if !e.Terminal() {
			return false
		}
	}
	return stopped
}

func (u *use) allocs() (out []string, hint string) {
	hint = "wait until their nodes have ended them"
	for a := range u.s.Allocs(nil, "") {
		if a.Namespace != u.ns || collection.Ended(u.s, a) {
			continue
		}
		out = append(out, fmt.Sprintf("%s on node %s", ids.Short(a.ID), a.NodeName))
		if a.ClientStatus == alloc.ClientLost {
			hint = `a node is down, and its tasks may run: bring it back, or say that it is gone, with ` +
				`"berth node replace"`
		}
	}
	return out, hint
}

func (u *use) volumes() []string {
	var out []string
	for v := range u.s.Volumes(nil, u.ns, "") {
		if v.ID.Namespace == u.ns {
			out = append(out, string(v.ID.ID))
		}
	}
	return out
}

// jobsIn lists the jobs of all namespaces that are not over and run in a node pool.
func jobsIn(s *state.Snap, pool string) []string {
	var out []string
	for j := range s.Jobs(nil, wire.AllNamespaces, "") {
		named := (&partition.Namespace{}).Pool(j.NodePool)
		if named == pool && !collection.JobOver(s, collection.JobName{Namespace: j.Namespace, Job: j.ID}) {
			out = append(out, ids.Typed(j.Namespace, j.ID))
		}
	}
	return out
}
