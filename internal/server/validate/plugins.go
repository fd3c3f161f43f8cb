package validate

import (
	"errors"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// ownPlugins refuses a job whose storage plugin is another namespace's. Every controller of a plugin may be asked to
// make and delete its volumes, and gets their secrets: who runs one more has what is the others'.
func ownPlugins(s *state.Snap, j *job.Job) error {
	var errs []error
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if t.CSIPluginConfig == nil {
				continue
			}
			id := ids.Plugin(t.CSIPluginConfig.ID)
			if owner := owned(s, j.Namespace, id); owner != "" {
				errs = append(errs, fault.WithHint(fault.New(fault.Conflict, "register",
					fmt.Sprintf("job %q: group %q: task %q", j.ID, g.Name, t.Name),
					fmt.Sprintf("the plugin id %q is %s", id, owner)), "give the plugin another id"))
			}
		}
	}
	return errors.Join(errs...)
}

// owned says whose a plugin id is that a namespace may not have; empty: nobody else's.
func owned(s *state.Snap, ns ids.Namespace, id ids.Plugin) string {
	if id == bundled && ns != ids.ReservedNamespace {
		return "that of the bundled plugin"
	}
	for o := range s.Jobs(nil, wire.AllNamespaces, "") {
		if o.Namespace == ns || o.Stopped() {
			continue
		}
		for _, g := range o.TaskGroups {
			for _, t := range g.Tasks {
				if t.CSIPluginConfig != nil && ids.Plugin(t.CSIPluginConfig.ID) == id {
					return fmt.Sprintf("that of job %q in namespace %q", o.ID, o.Namespace)
				}
			}
		}
	}
	return ""
}
