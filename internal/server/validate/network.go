package validate

import (
	"fmt"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/model/job"
	"berth/internal/model/network"
	"berth/internal/server/state"
)

// networked refuses groups whose network nobody can make, and such as a server of the cluster would not understand the
// records of.
func networked(s *state.Snap, j *job.Job) (errs []error) {
	older := s.Meta(nil) != nil && !s.Understands(network.Schema)
	for _, g := range j.TaskGroups {
		at := fmt.Sprintf("job %q: group %q: network", j.ID, g.Name)
		bad := func(why string) { errs = append(errs, fault.New(fault.Invalid, "register", at, why)) }
		for _, n := range g.Networks {
			if why := network.BadMode(n.Mode); why != "" {
				bad(why)
			}
			if n.CNI != nil {
				if why := network.BadCNI(n.Mode, n.CNI.Args); why != "" {
					bad(why)
				}
			}
			for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
				if p.IgnoreCollision && (p.Value == 0 || n.Mode != network.ModeHost) {
					bad(fmt.Sprintf("port %q: ignore_collision is for static ports on the host's network", p.Label))
				}
			}
			for _, problem := range network.BadDNS(n.DNS) {
				bad(problem)
			}
			if len(n.Hostname) > job.MaxExpanded {
				bad("its hostname is too long")
			}
			if older && n.Own() {
				errs = append(errs, fault.WithHint(
					fault.New(fault.Unsupported, "register", at,
						"it asks for more than ports of the node's address, and a server of the cluster is older"),
					"upgrade every server first"))
			}
		}
	}
	return errs
}
