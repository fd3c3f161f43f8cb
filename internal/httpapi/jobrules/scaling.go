package jobrules

import (
	"fmt"

	"berth/api"
	"berth/internal/model/job"
)

// vertical are the words by which a task's block says what of it is scaled, with the types of their policies.
var vertical = map[string]string{"cpu": job.ScalingVerticalCPU, "mem": job.ScalingVerticalMemory}

// canonicalScaling fills in how a group's count is bounded, and a count that the job leaves to its bounds. What servers
// say of a policy nobody submits.
func canonicalScaling(g *api.TaskGroup) {
	if p := g.Scaling; p != nil {
		if g.Count == nil && p.Min != nil {
			g.Count = new(int(*p.Min))
		}
		set(&g.Count, 1)
		set(&p.Min, int64(*g.Count))
		if p.Type == "" {
			p.Type = job.ScalingHorizontal
		}
		canonicalPolicy(p)
	}
	for _, t := range g.Tasks {
		if t == nil {
			continue
		}
		for _, p := range t.ScalingPolicies {
			if p == nil {
				continue
			}
			set(&p.Min, 0)
			if long, short := vertical[p.Type]; short {
				p.Type = long
			}
			canonicalPolicy(p)
		}
	}
}

func canonicalPolicy(p *api.ScalingPolicy) {
	set(&p.Enabled, true)
	p.ID, p.Namespace = "", ""
	p.Target = nil
	p.CreateIndex, p.ModifyIndex = 0, 0
}

// scaling checks the policies of a group and of its tasks.
func (c *checker) scaling(j *api.Job, g *api.TaskGroup, at string) {
	if p := g.Scaling; p != nil {
		c.policy(at+": scaling", p)
		switch {
		case job.OnEveryNode(*j.Type):
			c.addf("%s: scaling: a job of type %s runs on every node that fits, and has no count", at, *j.Type)
		case p.Type != job.ScalingHorizontal:
			c.addf("%s: scaling: its type must be %q, is %q", at, job.ScalingHorizontal, shorten(p.Type))
		case p.Max != nil && int64(*g.Count) > *p.Max:
			c.addf("%s: scaling: count %d is above max %d", at, *g.Count, *p.Max)
		case int64(*g.Count) < *p.Min:
			c.addf("%s: scaling: count %d is below min %d", at, *g.Count, *p.Min)
		}
	}
	for _, t := range g.Tasks {
		if t == nil {
			continue
		}
		seen := map[string]bool{}
		for _, p := range t.ScalingPolicies {
			if p == nil {
				continue
			}
			of := fmt.Sprintf("%s: task %q: scaling %q", at, shorten(t.Name), shorten(p.Type))
			c.policy(of, p)
			switch {
			case p.Type != job.ScalingVerticalCPU && p.Type != job.ScalingVerticalMemory:
				c.addf("%s: a task's policy is of \"cpu\" or of \"mem\"; the count is scaled by one of the group", of)
			case seen[p.Type]:
				c.addf("%s: it is there twice", of)
			}
			seen[p.Type] = true
		}
	}
}

// policy checks the bounds that a policy states.
func (c *checker) policy(at string, p *api.ScalingPolicy) {
	switch {
	case p.Max == nil:
		c.addf("%s: max is missing: it says how far it may be scaled", at)
	case *p.Min < 0:
		c.addf("%s: min must not be negative, is %d", at, *p.Min)
	case *p.Max < *p.Min:
		c.addf("%s: max %d is below min %d", at, *p.Max, *p.Min)
	}
}
