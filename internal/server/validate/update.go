package validate

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/model/job"
	"berth/internal/model/volume"
)

// triable refuses canaries that could never run beside what they are tried against: of that they would wait for the
// end, and that for their health.
func triable(j *job.Job, g *job.TaskGroup) error {
	if g.Update == nil || g.Update.Canary == 0 {
		return nil
	}
	refuse := func(why string) error {
		return fault.WithHint(
			fault.New(fault.Invalid, "register", fmt.Sprintf("job %q: group %q", j.ID, g.Name), why),
			"take canary out of its update block: each allocation is stopped before its successor starts")
	}
	for _, v := range g.CSIVolumes() {
		use := &volume.Claim{AccessMode: volume.AccessMode(v.AccessMode), ReadOnly: v.ReadOnly}
		if volume.Excludes(use, use) {
			return refuse(fmt.Sprintf("a canary could not run beside what it is tried against: volume %q "+
				"is used as %s, which one at a time can", v.Name, v.AccessMode))
		}
	}
	for _, t := range g.Tasks {
		if t.CSIPluginConfig != nil {
			return refuse(fmt.Sprintf("a canary could not run beside what it is tried against: task %q "+
				"is a CSI plugin, of which a node runs one at a time", t.Name))
		}
	}
	return nil
}

// untried warns of members of update that have no effect beside the others.
func untried(j *job.Job, g *job.TaskGroup) (out []string) {
	u := g.Update
	if u == nil {
		return nil
	}
	warn := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("group %q: update ", g.Name)+fmt.Sprintf(format, args...))
	}
	if u.MaxParallel > g.Count && g.Count > 0 && j.Type == job.TypeService {
		warn("max_parallel (%d) is more than count (%d): all are replaced at once", u.MaxParallel, g.Count)
	}
	if u.MaxParallel == 0 && u.AutoRevert {
		warn("auto_revert has no effect: with max_parallel = 0 there is no deployment that could fail")
	}
	for _, o := range j.TaskGroups {
		if u.AutoPromote && o.Update != nil && o.Update.Canary > 0 && !o.Update.AutoPromote {
			warn("auto_promote has no effect, because group %q has canaries without it", o.Name)
		}
	}
	return out
}
