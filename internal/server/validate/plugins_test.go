package validate

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/testkit/localstate"
)

// TestAPluginIsItsNamespacesOwn: given the plugin of a job in another namespace, when a job says that it runs that
// plugin, or the bundled one, then it is refused by the plugin's id; one of the same namespace may add to it, and one
// that was stopped owns nothing.
func TestAPluginIsItsNamespacesOwn(t *testing.T) {
	plugin := func(ns ids.Namespace, name ids.Job, id string) *job.Job {
		return &job.Job{Namespace: ns, ID: name, TaskGroups: []*job.TaskGroup{{Name: "g", Tasks: []*job.Task{
			{Name: "t", CSIPluginConfig: &job.CSIPluginConfig{ID: id, Type: job.PluginController}}}}}}
	}
	c := localstate.New(t)
	c.Must(t, &fsm.JobRegister{Job: plugin(ids.ReservedNamespace, "theirs", "disk"), Seed: ids.New()})
	for what, try := range map[string]struct {
		job     *job.Job
		refusal string
	}{
		"another namespace's": {plugin(ids.DefaultNamespace, "mine", "disk"), `job "theirs" in namespace "berth"`},
		"the same one's":      {plugin(ids.ReservedNamespace, "more", "disk"), ""},
		"nobody's":            {plugin(ids.DefaultNamespace, "mine", "other"), ""},
		"the bundled one":     {plugin(ids.DefaultNamespace, "mine", "local-csi"), "bundled"},
		"the bundled one's":   {plugin(ids.ReservedNamespace, "local-csi", "local-csi"), ""},
	} {
		judged(t, what, ownPlugins(c.Store.Snapshot(), try.job), try.refusal)
	}
	c.Must(t, &fsm.JobDeregister{Namespace: ids.ReservedNamespace, Job: "theirs", Seed: ids.New()})
	judged(t, "a stopped one's", ownPlugins(c.Store.Snapshot(), plugin(ids.DefaultNamespace, "mine", "disk")), "")
}
