package jobrules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/model/job"
)

// canonicalDisconnect fills in what a group leaves out of what becomes of its allocations on silent nodes. The old
// forms become the block, which wins where it stands beside them.
func canonicalDisconnect(g *api.TaskGroup) {
	d := g.Disconnect
	if d == nil && len(oldForms(g)) > 0 {
		d = &api.DisconnectStrategy{LostAfter: g.MaxClientDisconnect, StopOnClientAfter: g.StopAfterClientDisconnect}
		if p := g.PreventRescheduleOnLost; p != nil && *p {
			set(&d.Replace, false)
		}
	}
	if d == nil {
		return
	}
	set(&d.LostAfter, 0)
	set(&d.Replace, true)
	set(&d.Reconcile, job.KeepBestScore)
	g.Disconnect = d
}

// oldForms are what a group says of it in the forms that the block has replaced, with what is written instead.
func oldForms(g *api.TaskGroup) map[string]string {
	out := map[string]string{}
	if g.MaxClientDisconnect != nil {
		out["max_client_disconnect"] = "lost_after"
	}
	if g.StopAfterClientDisconnect != nil {
		out["stop_after_client_disconnect"] = "stop_on_client_after"
	}
	if p := g.PreventRescheduleOnLost; p != nil && *p { // false is how every job is shown
		out["prevent_reschedule_on_lost"] = "replace"
	}
	return out
}

// disconnectWarnings lists what of it is written in an old form.
func disconnectWarnings(j *api.Job) (out []string) {
	for _, g := range j.TaskGroups {
		if g == nil {
			continue
		}
		old := oldForms(g)
		for _, name := range slices.Sorted(maps.Keys(old)) {
			out = append(out, fmt.Sprintf("group %q: %s is the old form; write %s in a block disconnect { }, which "+
				"wins where both stand", shorten(g.Name), name, old[name]))
		}
	}
	return out
}

func (c *checker) disconnect(at, jobType string, g *api.TaskGroup) {
	d := g.Disconnect
	if d == nil {
		return
	}
	at += ": disconnect"
	stop := d.StopOnClientAfter
	switch {
	case *d.LostAfter < 0:
		c.addf("%s: lost_after must not be negative, is %s", at, *d.LostAfter)
	case stop != nil && *stop <= 0:
		c.addf("%s: stop_on_client_after must be greater than zero, is %s", at, *stop)
	case stop != nil && *d.LostAfter > 0:
		c.addf("%s: it has lost_after and stop_on_client_after; leave one out", at)
	case stop != nil && job.OnEveryNode(jobType):
		c.addf("%s: stop_on_client_after is for service and batch jobs", at)
	}
	if !slices.Contains(job.Reconciles, *d.Reconcile) {
		c.addf("%s: reconcile must be one of %s, is %q", at, strings.Join(job.Reconciles, ", "), shorten(*d.Reconcile))
	}
	if *d.LostAfter <= 0 || stop != nil || !*d.Replace {
		return
	}
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		if v := g.Volumes[alias]; v != nil && excludes(v) {
			c.addf("%s: lost_after with replace would have two allocations that write volume %q, which one may write: "+
				"the node may be cut off, and its task go on; write replace = false, and the allocation keeps its "+
				"volume until its node comes back, or a person says that it is dead", at, shorten(alias))
		}
	}
}

// excludes reports a volume that nodes write one at a time.
func excludes(v *api.VolumeRequest) bool {
	return v.Type == job.VolumeTypeCSI && !v.ReadOnly && strings.HasSuffix(v.AccessMode, "-writer") &&
		v.AccessMode != "multi-node-multi-writer"
}
