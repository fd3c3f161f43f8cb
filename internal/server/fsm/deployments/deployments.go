// Package deployments owns what is decided about deployments: by people, and by the keeper when a deadline is over or
// what was placed does not work. Packages of the server half may import it.
package deployments

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/deploying"
	"berth/internal/server/fsm"
	"berth/internal/server/partitions"
	"berth/internal/server/state"
	"berth/internal/server/versions"
)

func init() {
	fsm.Register[Promote]("deployment-promote", deployment.Schema, "server/endpoint/deployments")
	fsm.Register[Pause]("deployment-pause", deployment.Schema, "server/endpoint/deployments")
	fsm.Register[Fail]("deployment-fail", deployment.Schema, "server/endpoint/deployments")
	fsm.Register[SetHealth]("deployment-health", deployment.Schema, "server/endpoint/deployments")
	fsm.Register[End]("deployment-end", deployment.Schema, "server/deploy")
	fsm.Register[Stable]("job-stable", deployment.Schema, "server/endpoint")
}

// Decided is the result of a decision.
type Decided struct {
	Eval     *eval.Eval // nil: nothing to follow
	Reverted *uint64    // the version that was gone back to
	Warnings []string
}

// active finds a deployment that is not over.
func active(tx *state.Tx, id ids.Deployment, verb string) (*deployment.Deployment, error) {
	d := tx.Deployment(nil, id)
	switch {
	case d == nil:
		return nil, fault.New(fault.NotFound, verb, fmt.Sprintf("deployment %q", id), "deployment not found")
	case !d.Active():
		// The text is what clients of this API look for.
		return nil, fault.New(fault.Conflict, "", "", fmt.Sprintf("can't %s terminal deployment", verb))
	}
	return d, nil
}

// follow makes the evaluation by which a job takes a decision up.
func follow(tx *state.Tx, d *deployment.Deployment, seed string) *eval.Eval {
	j := tx.Job(nil, d.Namespace, d.Job)
	if j == nil {
		return nil
	}
	e := fsm.NewEval(seed, eval.TriggerDeployment, j)
	e.Deployment = d.ID
	tx.PutEval(e)
	return e
}

// Promote has healthy canaries take the place of what they are tried against.
type Promote struct {
	Deployment ids.Deployment
	Groups     []string // none: all that have canaries
	Seed       string
}

// Apply returns a *Decided.
func (c *Promote) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	d, err := active(tx, c.Deployment, "promote")
	if err != nil {
		return nil, err
	}
	groups, err := c.promotable(&tx.Snap, d)
	if err != nil {
		return nil, err
	}
	deploying.Promote(tx, d, groups)
	return &Decided{Eval: follow(tx, d, c.Seed)}, nil
}

// promotable are the groups to promote; an error says which of them cannot be, and why.
func (c *Promote) promotable(s *state.Snap, d *deployment.Deployment) ([]string, error) {
	refuse := func(hint, format string, args ...any) error {
		return fault.WithHint(fault.New(fault.Conflict, "promote", fmt.Sprintf("deployment %q", d.ID),
			fmt.Sprintf(format, args...)), hint)
	}
	groups := c.Groups
	if len(groups) == 0 {
		groups = slices.DeleteFunc(d.Names(), func(n string) bool { return !d.Groups[n].Canarying() })
	}
	if len(groups) == 0 {
		return nil, refuse("", "no group of it has canaries that are to be promoted")
	}
	facts := deploying.FactsOf(s, d)
	var bad []string
	for _, name := range groups {
		switch g := d.Groups[name]; {
		case g == nil:
			return nil, refuse("its groups are "+strings.Join(d.Names(), ", "), "it has no group %q", name)
		case !g.Canarying():
			return nil, refuse("", "group %q has no canaries that are to be promoted", name)
		case facts.Groups[name].Tried < g.DesiredCanaries:
			bad = append(bad, fmt.Sprintf("group %q has %d/%d healthy canaries", name, facts.Groups[name].Tried,
				g.DesiredCanaries))
		}
	}
	if len(bad) > 0 {
		return nil, refuse("wait until they are healthy, or end the deployment with: berth deployment fail "+
			ids.Short(d.ID), "%s", strings.Join(bad, "; "))
	}
	return groups, nil
}

// Pause holds a deployment, or lets it go on.
type Pause struct {
	Deployment ids.Deployment
	Pause      bool
	Seed       string
}

// Apply returns a *Decided. Who asks for what is so already changes nothing.
func (c *Pause) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	verb := "resume"
	if c.Pause {
		verb = "pause"
	}
	d, err := active(tx, c.Deployment, verb)
	if err != nil {
		return nil, err
	}
	if c.Pause {
		if d.Status != deployment.Paused {
			tx.PutDeployment(d.With(deployment.Paused, deployment.WhyPaused))
		}
		return &Decided{}, nil
	}
	if d.Status == deployment.Paused {
		tx.PutDeployment(d.With(deployment.Running, d.Describe()))
		deploying.Settle(tx, d.Namespace, d.Job) // what became healthy while it was held
	}
	return &Decided{Eval: follow(tx, d, c.Seed)}, nil
}

// Fail ends a deployment because a person says so.
type Fail struct {
	Deployment ids.Deployment
	Seed       string
}

// Apply returns a *Decided.
func (c *Fail) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	d, err := active(tx, c.Deployment, "fail")
	if err != nil {
		return nil, err
	}
	return end(tx, st, d, deployment.WhyByHand, d.Reverts(), c.Seed)
}

// End does what the keeper has decided about a deployment as it was when the decision was made: Seen is its modify
// index then. One that has changed since is passed over: whoever decided looks again.
type End struct {
	Deployment ids.Deployment
	Seen       uint64
	Why        string // it failed; empty: what follows at once from how its allocs stand is done
	Revert     bool
	Seed       string
}

// Apply returns a *Decided.
func (c *End) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	d := tx.Deployment(nil, c.Deployment)
	if d == nil || !d.Active() || d.ModifyIndex != c.Seen {
		return &Decided{}, nil
	}
	if c.Why != "" {
		return end(tx, st, d, c.Why, c.Revert, c.Seed)
	}
	out := &Decided{}
	if deploying.Settle(tx, d.Namespace, d.Job) {
		out.Eval = follow(tx, d, c.Seed)
	}
	return out, nil
}

// end fails a deployment, and goes back to the newest stable version if that is asked for and there is one.
func end(
	tx *state.Tx, st fsm.Stamp, d *deployment.Deployment, why string, revert bool, seed string,
) (any, error) {
	if !revert {
		deploying.End(tx, d, deployment.Failed, why)
		return &Decided{Eval: follow(tx, d, seed)}, nil
	}
	to, none := deploying.Target(&tx.Snap, d, same)
	if to != nil {
		none = registrable(tx, to)
	}
	if none != "" {
		text := why + " - not rolling back: " + none
		deploying.End(tx, d, deployment.Failed, text)
		return &Decided{Eval: follow(tx, d, seed), Warnings: []string{text}}, nil
	}
	deploying.End(tx, d, deployment.Failed, fmt.Sprintf("%s - rolling back to job version %d", why, to.Version))
	again := *to
	reg := &fsm.JobRegister{
		Job:          &again,
		Submission:   tx.Submission(nil, d.Namespace, d.Job, to.Version),
		EvalPriority: d.EvalPriority,
		Seed:         seed,
	}
	done, err := reg.Apply(tx, st)
	if err != nil {
		return nil, err
	}
	version := to.Version
	return &Decided{Eval: done.(*fsm.JobRegistered).Eval, Reverted: &version}, nil
}

// registrable says why a stored version of a job cannot be registered once more; empty: it can.
func registrable(tx *state.Tx, j *job.Job) string {
	if err := partitions.Admits(&tx.Snap, j); err != nil {
		return err.Error()
	}
	if over := j.Excesses(); len(over) > 0 {
		return over[0].Error()
	}
	return ""
}

func same(a, b *job.Job) bool {
	equal, err := versions.Same(a, b)
	return equal && err == nil
}

// SetHealth says by hand which allocs of a deployment are healthy, and which are not.
type SetHealth struct {
	Deployment         ids.Deployment
	Healthy, Unhealthy []ids.Alloc
	Seed               string
}

// ByHand is why an alloc is not healthy that a person said so of.
const ByHand = "a person said that it is not"

// Apply returns a *Decided.
func (c *SetHealth) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	d, err := active(tx, c.Deployment, "set health of allocations for a")
	if err != nil {
		return nil, err
	}
	if err := c.check(tx, d); err != nil {
		return nil, err
	}
	for i, id := range slices.Concat(c.Healthy, c.Unhealthy) {
		n := *tx.Alloc(nil, id)
		n.Health = &alloc.Health{Healthy: i < len(c.Healthy), At: st.Time, Index: st.Index}
		if !n.Health.Healthy {
			n.Health.Reason = ByHand
		}
		n.ModifyTime = st.Time.UnixNano()
		tx.PutAlloc(&n)
	}
	deploying.Settle(tx, d.Namespace, d.Job)
	return &Decided{Eval: follow(tx, d, c.Seed)}, nil
}

func (c *SetHealth) check(tx *state.Tx, d *deployment.Deployment) error {
	refuse := func(kind fault.Kind, id ids.Alloc, hint, format string, args ...any) error {
		return fault.WithHint(fault.New(kind, "set health", fmt.Sprintf("alloc %q", id), fmt.Sprintf(format, args...)),
			hint)
	}
	if len(c.Healthy)+len(c.Unhealthy) == 0 {
		return fault.New(fault.Invalid, "set health", fmt.Sprintf("deployment %q", d.ID), "no alloc is named")
	}
	seen := map[ids.Alloc]bool{}
	for _, id := range slices.Concat(c.Healthy, c.Unhealthy) {
		a := tx.Alloc(nil, id)
		switch {
		case a == nil:
			return refuse(fault.NotFound, id, "", "alloc not found")
		case a.Deployment != d.ID:
			return refuse(fault.Invalid, id, "", "it is not of deployment %q", d.ID)
		case seen[id]:
			return refuse(fault.Invalid, id, "", "it is named twice")
		case a.Terminal():
			return refuse(fault.Conflict, id, "", "it has ended, or is to end")
		}
		seen[id] = true
		j := tx.JobOf(nil, a)
		if g := j.Group(a.TaskGroup); g == nil || g.Update == nil || g.Update.HealthCheck != alloc.ManualHealth {
			return refuse(fault.Conflict, id, `people decide where the group has update { health_check = "manual" }`,
				"its tasks decide whether it is healthy, not a person")
		}
	}
	return nil
}

// Stable notes whether a version of a job is one to go back to.
type Stable struct {
	Namespace ids.Namespace
	Job       ids.Job
	Version   uint64
	Stable    bool
}

// Apply returns nil.
func (c *Stable) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	subject := fmt.Sprintf("job %q", c.Job)
	j := tx.Job(nil, c.Namespace, c.Job)
	if j == nil {
		return nil, fault.New(fault.NotFound, "stable", subject, "job not found")
	}
	if !deploying.SetStable(tx, c.Namespace, c.Job, j.CreateIndex, c.Version, c.Stable) {
		return nil, fault.WithHint(
			fault.New(fault.NotFound, "stable", subject,
				fmt.Sprintf("version %d is not there: it never was, or is forgotten", c.Version)),
			"see which versions there are with: berth job history "+ids.Typed(c.Namespace, c.Job))
	}
	return nil, nil
}
