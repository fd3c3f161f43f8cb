package holders

import (
	"fmt"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/instances"
	"berth/internal/server/state"
)

// namedUses bounds the uses that one warning lists.
const namedUses = 5

// Deserted warns of the volumes in use that no instance of their plugin serves any more when a job is stopped, or with
// purge forgotten: what is mounted stays mounted, and nothing is mounted or released until an instance runs again.
func Deserted(s *state.Snap, ns ids.Namespace, id ids.Job, purge bool) []string {
	j := s.Job(nil, ns, id)
	if j == nil || j.Stop && !purge {
		return nil
	}
	var out []string
	warned := map[ids.Plugin]bool{}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if t.CSIPluginConfig == nil || warned[ids.Plugin(t.CSIPluginConfig.ID)] {
				continue
			}
			p := ids.Plugin(t.CSIPluginConfig.ID)
			if uses := deserted(s, j, p, t.CSIPluginConfig.Type); len(uses) > 0 {
				warned[p] = true
				out = append(out, fmt.Sprintf("plugin %q serves volumes in use: %s; they stay as they are, and until "+
					"it runs again none is mounted or released, so what uses them does not end either: %s",
					p, listed(uses), backAgain(j, purge)))
			}
		}
	}
	return out
}

// deserted are the uses of a plugin's volumes for which no instance of another job is there.
func deserted(s *state.Snap, j *job.Job, p ids.Plugin, of string) []string {
	controller := false
	nodes := map[ids.Node]bool{} // with another job's
	for n, i := range instances.Of(s, nil, p) {
		if a := s.Alloc(nil, i.Alloc); a.Namespace == j.Namespace && a.Job == j.ID {
			continue
		}
		controller = controller || i.Role == plugin.RoleController
		nodes[n.ID] = nodes[n.ID] || i.Role == plugin.RoleNode
	}
	var out []string
	for c := range s.Claims(nil) {
		served := (of == job.PluginController || nodes[c.Node]) && (of == job.PluginNode || controller)
		if c.Plugin == p && c.State != volume.Queued && !served {
			out = append(out, fmt.Sprintf("volume %q is %s", c.Volume.ID, volume.DescribeClaim(c)))
		}
	}
	return out
}

func listed(uses []string) string {
	if rest := len(uses) - namedUses; rest > 1 {
		return fmt.Sprintf("%s; and %d more", strings.Join(uses[:namedUses], "; "), rest)
	}
	return strings.Join(uses, "; ")
}

func backAgain(j *job.Job, purge bool) string {
	switch {
	case !purge:
		return "berth job start " + ids.Typed(j.Namespace, j.ID)
	case j.Namespace == ids.ReservedNamespace:
		return "an agent with local_csi registers it again when it starts"
	}
	return "berth job run FILE, with the file of the job"
}
