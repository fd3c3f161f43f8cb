package filter

import (
	"fmt"
	"strings"

	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Constraints passes nodes that satisfy the constraints of job, group and tasks.
type Constraints struct {
	region string
	rules  []constraintRule
}

type constraintRule struct {
	key         string
	operator    string
	left, right Target
	test        Test
	broken      error // the right side does not compile: no node passes
}

// Prepare implements Filter.
func (c *Constraints) Prepare(r *Request) bool {
	c.rules = nil
	c.add(r.Job.Constraints)
	c.add(r.Group.Constraints)
	for _, t := range r.Group.Tasks {
		c.add(t.Constraints)
	}
	return len(c.rules) > 0
}

func (c *Constraints) add(list []*job.Constraint) {
	for _, k := range list {
		if k.Operand == DistinctHosts || k.Operand == DistinctProperty {
			continue
		}
		rule := constraintRule{
			key:      Key(k),
			operator: k.Operand,
			left:     ParseTarget(k.LTarget),
			right:    ParseTarget(k.RTarget),
		}
		rule.test, rule.broken = NewTest(k.Operand, rule.right)
		c.rules = append(c.rules, rule)
	}
}

// Key is how metrics name a constraint: left, operator, right.
func Key(k *job.Constraint) string {
	op := k.Operand
	if op == "" {
		op = "="
	}
	if op == "is_set" || op == "is_not_set" {
		return k.LTarget + " " + op
	}
	return k.LTarget + " " + op + " " + k.RTarget
}

func (r *constraintRule) passes(n *node.Node, region string) bool {
	if r.broken != nil {
		return false
	}
	l, hl := r.left.Value(n, region)
	v, hr := r.right.Value(n, region)
	return r.test(l, hl, v, hr)
}

// Check implements Filter.
func (c *Constraints) Check(n *node.Node) string {
	for i := range c.rules {
		if !c.rules[i].passes(n, c.region) {
			return c.rules[i].key
		}
	}
	return ""
}

// Explain implements Filter.
func (c *Constraints) Explain(n *node.Node) (string, string) {
	for i := range c.rules {
		r := &c.rules[i]
		if r.passes(n, c.region) {
			continue
		}
		if r.broken != nil {
			return fmt.Sprintf("constraint %q cannot be read: %s", r.key, r.broken), "correct it in the job"
		}
		if v, ok := r.left.Value(n, c.region); ok {
			return fmt.Sprintf("constraint %q does not hold: the node has %q", r.key, v), r.hint(v)
		}
		return fmt.Sprintf("constraint %q does not hold: the node has no such value", r.key),
			"berth node status -verbose " + string(n.ID)
	}
	return "", ""
}

// hint explains what surprises people: by the operator version 6.1.0-amd64 is a pre-release, which it leaves out.
func (r *constraintRule) hint(value string) string {
	if r.operator != "version" || !strings.Contains(value, "-") {
		return ""
	}
	return `what follows the first - makes it a pre-release, which the operator version leaves out: use the operator ` +
		`semver, as with ">= 4.0.0"`
}

// NewConstraints returns the filter; region is what ${node.region} stands for.
func NewConstraints(region string) *Constraints { return &Constraints{region: region} }
