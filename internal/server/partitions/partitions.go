// Package partitions owns what the state says of namespaces and node pools: which there are, which come into being
// because something names them, and what a namespace lets a job use. Only packages of the server import it.
package partitions

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Schema is the number of the cluster from which on namespaces and node pools can be written. Below it there are the
// namespaces that are built in, and the pools that nodes name.
const Schema = 10

// MaxNodePools bounds the pools, so that they take some 32 MiB of the servers' memory at most: nodes can make them.
const MaxNodePools = 2000

// Found makes what every cluster of a schema has, and what the state's objects name: from before anybody could make it.
// What is there stays.
func Found(tx *state.Tx, schema uint64) {
	for _, n := range partition.BuiltInNamespaces() {
		found(tx, n)
	}
	if schema < Schema {
		return
	}
	for _, name := range namespacesNamed(&tx.Snap) {
		found(tx, &partition.Namespace{Name: name, Description: "Found in use by what was there before"})
	}
	for _, p := range partition.BuiltInNodePools() {
		if tx.NodePool(nil, p.Name) == nil {
			tx.PutNodePool(p)
		}
	}
	for _, name := range poolsNamed(&tx.Snap) {
		if tx.NodePool(nil, name) == nil {
			tx.PutNodePool(&partition.NodePool{Name: name, Description: "Found in use by what was there before"})
		}
	}
}

func found(tx *state.Tx, n *partition.Namespace) {
	if tx.Namespace(nil, n.Name) == nil {
		tx.PutNamespace(n)
	}
}

// namespacesNamed lists the namespaces of all that is in one.
func namespacesNamed(s *state.Snap) []ids.Namespace {
	var out []ids.Namespace
	name := func(ns ids.Namespace) {
		if ns != "" && !slices.Contains(out, ns) {
			out = append(out, ns)
		}
	}
	for j := range s.Jobs(nil, wire.AllNamespaces, "") {
		name(j.Namespace)
	}
	for a := range s.Allocs(nil, "") {
		name(a.Namespace)
	}
	for v := range s.Volumes(nil, wire.AllNamespaces, "") {
		name(v.ID.Namespace)
	}
	for sn := range s.VolumeSnapshots(nil) {
		name(sn.Namespace)
	}
	for c := range s.Claims(nil) {
		name(c.Volume.Namespace)
	}
	return out
}

// poolsNamed lists the pools of nodes and of jobs.
func poolsNamed(s *state.Snap) []string {
	var out []string
	name := func(pool string) {
		if pool = node.PoolOf(pool); !slices.Contains(out, pool) {
			out = append(out, pool)
		}
	}
	for n := range s.Nodes(nil, "") {
		name(n.NodePool)
	}
	for j := range s.Jobs(nil, wire.AllNamespaces, "") {
		name(j.NodePool)
	}
	return out
}

// Join makes the pool that a node names, if there is none of that name.
func Join(tx *state.Tx, n *node.Node) error {
	name := node.PoolOf(n.NodePool)
	if !tx.Understands(Schema) {
		return nil
	}
	if err := partition.OfNode(name); err != nil {
		return fault.Note(err, "register", fmt.Sprintf("node %q", n.Name))
	}
	if tx.NodePool(nil, name) != nil {
		return nil
	}
	if Full(&tx.Snap) {
		return fault.WithHint(
			fault.New(fault.Exhausted, "register", fmt.Sprintf("node %q", n.Name), fmt.Sprintf(
				"it names the node pool %q, and there are %d already, which is the bound", name, MaxNodePools)),
			"give its node_pool the name of one of them (berth node pool list), or delete some")
	}
	tx.PutNodePool(&partition.NodePool{Name: name, Description: "Named by the configuration of nodes."})
	return nil
}

// Full tells that there may be no more pools.
func Full(s *state.Snap) bool { return len(slices.Collect(s.NodePools(nil, ""))) >= MaxNodePools }

// Admits refuses a job whose namespace or whose node pool is not there.
func Admits(s *state.Snap, j *job.Job) error {
	subject := fmt.Sprintf("job %q", j.ID)
	if err := Exists(s, j.Namespace, "register", subject); err != nil {
		return err
	}
	pool := node.PoolOf(j.NodePool)
	if HasPool(s, pool) {
		return nil
	}
	return fault.WithHint(fault.New(fault.NotFound, "register", subject,
		fmt.Sprintf("node pool %q does not exist", pool)), // which there are is not for everybody who submits jobs
		`write one that "berth node pool list" shows as node_pool, or make it: berth node pool apply `+pool)
}

// Exists refuses what is to be in a namespace that is not there.
func Exists(s *state.Snap, ns ids.Namespace, op, subject string) error {
	if s.Namespace(nil, ns) != nil {
		return nil
	}
	return fault.WithHint(fault.New(fault.NotFound, op, subject, fmt.Sprintf("namespace %q does not exist", ns)),
		`"berth namespace list" lists those that there are, and "berth namespace apply" makes one`)
}

// HasPool tells whether a node pool is there. Below Schema every one counts as such.
func HasPool(s *state.Snap, name string) bool {
	return !s.Understands(Schema) || s.NodePool(nil, name) != nil
}

// shown bounds how many names an error lists.
const shown = 10

// Names writes names for an error, and of many how many more there are.
func Names(names []string) string {
	if more := len(names) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Place gives a job that names no node pool that of its namespace.
func Place(s *state.Snap, j *job.Job) {
	n := s.Namespace(nil, j.Namespace)
	if n == nil {
		n = &partition.Namespace{} // it is refused elsewhere
	}
	j.NodePool = n.Pool(j.NodePool)
}

// Permits lists what a job uses and its namespace does not let it use.
func Permits(s *state.Snap, j *job.Job) []error {
	n := s.Namespace(nil, j.Namespace)
	if n == nil {
		return nil // it is refused elsewhere
	}
	var errs []error
	refuse := func(what, hint string) {
		errs = append(errs, fault.WithHint(fault.New(fault.Invalid, "register", fmt.Sprintf("job %q", j.ID),
			fmt.Sprintf("%s is not allowed in namespace %q", what, n.Name)), hint))
	}
	look := fmt.Sprintf("see what is: berth namespace status %s", n.Name)
	if pool := n.Pool(j.NodePool); !n.AllowsPool(pool) {
		refuse(fmt.Sprintf("node pool %q", pool), n.AllowedPools())
	}
	for _, g := range j.TaskGroups {
		for _, w := range g.Networks {
			if !n.AllowsNetworkMode(w.Mode) {
				refuse(fmt.Sprintf("group %q: network mode %q", g.Name, modeOf(w)), look)
			}
		}
		for _, t := range g.Tasks {
			if !n.AllowsDriver(t.Driver) {
				refuse(fmt.Sprintf("group %q: task %q: driver %q", g.Name, t.Name, t.Driver), look)
			}
		}
	}
	return errs
}

func modeOf(w *job.NetworkResource) string {
	if w.Mode == "" {
		return partition.DefaultNetworkMode
	}
	return w.Mode
}
