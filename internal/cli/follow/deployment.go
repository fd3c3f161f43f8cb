package follow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
	"berth/internal/cli/rollout"
)

// needsPromotion is what servers say of a deployment whose canaries wait for a person.
const needsPromotion = "requires manual promotion"

// DeploymentEnded reports a deployment of which nothing more will come.
func DeploymentEnded(d *api.Deployment) bool {
	switch d.Status {
	case api.DeploymentStatusSuccessful, api.DeploymentStatusFailed, api.DeploymentStatusCancelled:
		return true
	}
	return false
}

// Deployment follows a deployment to its end, and shows it whenever it has changed. That it ends otherwise than wanted
// is an error; of no wanted status any end is good.
func (f *Follower) Deployment(ctx context.Context, id, ns, wanted string) error {
	f.heading("Following deployment %q", f.id(id))
	var last *api.Deployment
	err := Watch(ctx, ns, func(o *api.QueryOptions) (bool, *api.QueryMeta, error) {
		d, meta, err := f.Client.Deployments().Get(ctx, id, o)
		if err != nil {
			return false, nil, kit.Doing(err, "follow", "deployment", f.id(id))
		}
		if last == nil || Progress(last) != Progress(d) {
			f.line("%s", Progress(d))
		}
		last = d
		return DeploymentEnded(d), meta, nil
	})
	if err != nil {
		return f.gaveUp(ctx, err, "berth deployment status "+f.id(id))
	}
	f.Env.Out.Printf("\n")
	DeploymentBlock(f.Env.Out, last, f.Verbose)
	if wanted != "" && last.Status != wanted {
		return f.deploymentFailed(last)
	}
	return nil
}

// deployment tells how the deployment of the version that is followed comes along, and has what is well so far not
// decide while it is under way. An allocation that has failed does, unless the servers would go back: whoever made a
// mistake hears of it at once, and not when the deadlines of the deployment are over. That it fails is an error.
func (t *reporter) deployment(ctx context.Context, job Registered, r *rollout.Rollout, d *api.Deployment) error {
	if d == nil || d.JobSpecModifyIndex != job.JobModifyIndex {
		return nil // there is none: nothing of the version has a place yet, or nothing rolls
	}
	if text := Progress(d); text != t.progress {
		t.progress = text
		t.f.line("Deployment %q: %s", t.f.id(d.ID), text)
	}
	switch {
	case d.Status == api.DeploymentStatusFailed || d.Status == api.DeploymentStatusCancelled:
		for _, trouble := range r.Troubles {
			if trouble.Final {
				t.f.Stderr(ctx, t.f.Env.Err, trouble)
				break
			}
		}
		return t.f.back(ctx, job.Ref, d)
	case DeploymentEnded(d), r.Outcome == rollout.Unplaced, r.Outcome == rollout.Failed && !reverts(d):
	default:
		r.Outcome = rollout.Going
	}
	return nil
}

// reverts tells whether the servers go back by themselves when the deployment fails: then its end is what is to be
// told, and not the first allocation that fails.
func reverts(d *api.Deployment) bool {
	for _, g := range d.TaskGroups {
		if g.AutoRevert {
			return true
		}
	}
	return false
}

// Promote has canaries of groups, or of all, take their place, and follows the deployment.
func (f *Follower) Promote(ctx context.Context, ref kit.Ref, groups []string, detach bool) error {
	out, _, err := f.Client.Deployments().Promote(ctx, ref.ID, groups, ref.Write())
	if err != nil {
		return kit.Doing(err, "promote", "deployment", f.id(ref.ID))
	}
	f.Env.Out.Printf("Deployment %q promoted\n", f.id(ref.ID))
	return f.Changed(ctx, ref, out, detach, api.DeploymentStatusSuccessful)
}

// Changed tells what came of a change of a deployment, and follows it unless that is not wanted.
func (f *Follower) Changed(
	ctx context.Context, ref kit.Ref, out *api.DeploymentUpdateResponse, detach bool, wanted string,
) error {
	if v := out.RevertedJobVersion; v != nil {
		f.Env.Out.Printf("The job goes back to its version %d\n", *v)
	}
	if detach {
		if out.EvalID != "" {
			f.Env.Out.Printf("Evaluation ID: %s\n", out.EvalID)
		}
		return nil
	}
	return f.Deployment(ctx, ref.ID, ref.Namespace, wanted)
}

// deploymentFailed says how a deployment ended that is not successful.
func (f *Follower) deploymentFailed(d *api.Deployment) error {
	return kit.Fail(fault.Conflict, fmt.Sprintf(`see "berth deployment status %s"`, f.id(d.ID)),
		"the deployment of version %d of job %q has not succeeded: %s", d.JobVersion, d.JobID, d.StatusDescription)
}

// Progress is how far a deployment has come, in one sentence.
func Progress(d *api.Deployment) string {
	var groups []string
	for _, name := range groupsOf(d) {
		g := d.TaskGroups[name]
		text := fmt.Sprintf("group %q: %d placed, %d healthy, of %d", name, g.PlacedAllocs, g.HealthyAllocs,
			g.DesiredTotal)
		if g.UnhealthyAllocs > 0 {
			text += fmt.Sprintf(", %d unhealthy", g.UnhealthyAllocs)
		}
		if g.DesiredCanaries > 0 && !g.Promoted {
			text += fmt.Sprintf(", canaries %d of %d", len(g.PlacedCanaries), g.DesiredCanaries)
		}
		groups = append(groups, text)
	}
	text := d.StatusDescription + ": " + strings.Join(groups, "; ")
	if strings.Contains(d.StatusDescription, needsPromotion) && !DeploymentEnded(d) {
		text += fmt.Sprintf(`; "berth deployment promote %s" promotes its canaries once they are healthy`,
			kit.ID(d.ID, false))
	}
	return text
}

// DeploymentBlock writes a deployment with its groups.
func DeploymentBlock(p *kit.Printer, d *api.Deployment, verbose bool) {
	var l kit.Pairs
	l.Add("ID", kit.ID(d.ID, verbose))
	l.Add("Job ID", d.JobID)
	l.Add("Namespace", d.Namespace)
	l.Add("Job Version", strconv.FormatUint(d.JobVersion, 10))
	l.Add("Status", d.Status)
	l.Add("Description", d.StatusDescription)
	l.AddIf("To Go On", WayOn(d))
	p.Pairs(l)
	p.Section("Deployed")
	DeploymentGroups(p, d)
}

// WayOn is the command by which a deployment goes on that waits for a person; empty: it does not.
func WayOn(d *api.Deployment) string {
	switch {
	case d.Status == api.DeploymentStatusPaused:
		return "berth deployment resume " + kit.ID(d.ID, false)
	case DeploymentEnded(d) || !strings.Contains(d.StatusDescription, needsPromotion):
		return ""
	}
	for _, g := range d.TaskGroups {
		if g.DesiredCanaries > 0 && !g.Promoted && len(g.PlacedCanaries) > g.HealthyAllocs {
			return "wait until its canaries are healthy; then: berth deployment promote " + kit.ID(d.ID, false)
		}
	}
	return "berth deployment promote " + kit.ID(d.ID, false)
}

// DeploymentGroups writes the table of a deployment's groups, without the columns of what none of them has.
func DeploymentGroups(p *kit.Printer, d *api.Deployment) {
	reverts, canaries := false, false
	for _, g := range d.TaskGroups {
		reverts = reverts || g.AutoRevert
		canaries = canaries || g.DesiredCanaries > 0
	}
	header := []string{"Task Group"}
	if reverts {
		header = append(header, "Auto Revert")
	}
	if canaries {
		header = append(header, "Promoted")
	}
	header = append(header, "Desired")
	if canaries {
		header = append(header, "Canaries")
	}
	header = append(header, "Placed", "Healthy", "Unhealthy", "Progress Deadline")
	var rows [][]string
	for _, name := range groupsOf(d) {
		g := d.TaskGroups[name]
		row := []string{name}
		if reverts {
			row = append(row, strconv.FormatBool(g.AutoRevert))
		}
		if canaries {
			promoted := "N/A"
			if g.DesiredCanaries > 0 {
				promoted = strconv.FormatBool(g.Promoted)
			}
			row = append(row, promoted)
		}
		row = append(row, strconv.Itoa(g.DesiredTotal))
		if canaries {
			row = append(row, strconv.Itoa(g.DesiredCanaries))
		}
		by := "N/A"
		if g.RequireProgressBy != nil && !g.RequireProgressBy.IsZero() {
			by = kit.At(*g.RequireProgressBy)
		}
		rows = append(rows, append(row, strconv.Itoa(g.PlacedAllocs), strconv.Itoa(g.HealthyAllocs),
			strconv.Itoa(g.UnhealthyAllocs), by))
	}
	p.Table(header, rows)
}

func groupsOf(d *api.Deployment) []string { return slices.Sorted(maps.Keys(d.TaskGroups)) }

// DeploymentTable lists deployments; the namespace is shown where several are.
func DeploymentTable(e *kit.Env, list []*api.Deployment, verbose bool) {
	header := []string{"ID", "Job ID", "Job Version", "Status", "Description"}
	if e.AllNamespaces() {
		header = slices.Insert(header, 1, "Namespace")
	}
	kit.List(e.Out, list, "deployments", header, func(d *api.Deployment) []string {
		row := []string{kit.ID(d.ID, verbose), d.JobID, strconv.FormatUint(d.JobVersion, 10), d.Status,
			d.StatusDescription}
		if e.AllNamespaces() {
			row = slices.Insert(row, 1, d.Namespace)
		}
		return row
	})
}
