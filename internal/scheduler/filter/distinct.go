package filter

import (
	"fmt"
	"strconv"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Distinct keeps allocs apart: distinct_hosts and distinct_property of job and group. It counts the allocs that stay
// and those that the plan places.
type Distinct struct {
	region    string
	nodes     func(ids.Node) *node.Node
	jobHosts  bool
	grpHosts  bool
	group     string
	props     []distinctProperty
	hosts     map[ids.Node]map[string]int // allocs of the job on a node, by group
	countedBy map[ids.Alloc]bool
}

type distinctProperty struct {
	key     string
	group   string // empty: the whole job counts
	target  Target
	allowed int
	counts  map[string]int
}

// NewDistinct returns the filter of one job. Nodes finds the node of an existing alloc.
func NewDistinct(region string, nodes func(ids.Node) *node.Node) *Distinct {
	return &Distinct{region: region, nodes: nodes, hosts: map[ids.Node]map[string]int{}}
}

// Prepare implements Filter. Counts of hosts persist over the groups of a job; those of properties are made anew by
// Count for the allocs that stay.
func (d *Distinct) Prepare(r *Request) bool {
	d.group, d.props = r.Group.Name, nil
	d.jobHosts = d.read(r.Job.Constraints, "")
	d.grpHosts = d.read(r.Group.Constraints, r.Group.Name)
	d.countedBy = map[ids.Alloc]bool{}
	return d.jobHosts || d.grpHosts || len(d.props) > 0
}

func (d *Distinct) read(list []*job.Constraint, group string) (hosts bool) {
	for _, k := range list {
		switch k.Operand {
		case DistinctHosts:
			hosts = hosts || k.RTarget != "false"
		case DistinctProperty:
			allowed := 1
			if n, err := strconv.Atoi(k.RTarget); err == nil && n > 0 {
				allowed = n
			}
			d.props = append(d.props, distinctProperty{
				key:     DistinctProperty + ": " + k.LTarget,
				group:   group,
				target:  ParseTarget(k.LTarget),
				allowed: allowed,
				counts:  map[string]int{},
			})
		}
	}
	return hosts
}

// Count adds an alloc that stays or was placed.
func (d *Distinct) Count(a *alloc.Alloc) {
	if d.hosts[a.Node] == nil {
		d.hosts[a.Node] = map[string]int{}
	}
	d.hosts[a.Node][a.TaskGroup]++
	d.CountProperties(a)
}

// CountProperties adds an alloc to the present group's properties only, once.
func (d *Distinct) CountProperties(a *alloc.Alloc) {
	if len(d.props) == 0 || d.countedBy[a.ID] {
		return
	}
	n := d.nodes(a.Node)
	if n == nil {
		return
	}
	d.countedBy[a.ID] = true
	for i := range d.props {
		p := &d.props[i]
		if v, ok := p.target.Value(n, d.region); ok && (p.group == "" || p.group == a.TaskGroup) {
			p.counts[v]++
		}
	}
}

// Check implements Filter.
func (d *Distinct) Check(n *node.Node) string {
	if here := d.hosts[n.ID]; d.jobHosts && len(here) > 0 || d.grpHosts && here[d.group] > 0 {
		return DistinctHosts
	}
	for i := range d.props {
		p := &d.props[i]
		v, ok := p.target.Value(n, d.region)
		if !ok || p.counts[v] >= p.allowed {
			return p.key
		}
	}
	return ""
}

// Explain implements Filter.
func (d *Distinct) Explain(n *node.Node) (string, string) {
	key := d.Check(n)
	if key == DistinctHosts {
		return "an alloc of the job runs on this node already", "add nodes, lower the count, or drop distinct_hosts"
	}
	for i := range d.props {
		p := &d.props[i]
		if p.key != key {
			continue
		}
		v, ok := p.target.Value(n, d.region)
		if !ok {
			return fmt.Sprintf("%s: the node has no such value", key), ""
		}
		return fmt.Sprintf("%s: value %q is taken by %d of %d allocs", key, v, p.counts[v], p.allowed),
			"lower the count or raise the limit"
	}
	return "", ""
}

// Uncount takes an alloc out again that the plan stops.
func (d *Distinct) Uncount(a *alloc.Alloc) {
	if here := d.hosts[a.Node]; here[a.TaskGroup] > 0 {
		if here[a.TaskGroup]--; here[a.TaskGroup] == 0 {
			delete(here, a.TaskGroup)
		}
	}
	if !d.countedBy[a.ID] {
		return
	}
	delete(d.countedBy, a.ID)
	n := d.nodes(a.Node)
	for i := range d.props {
		p := &d.props[i]
		if v, ok := p.target.Value(n, d.region); ok && (p.group == "" || p.group == a.TaskGroup) {
			p.counts[v]--
		}
	}
}
