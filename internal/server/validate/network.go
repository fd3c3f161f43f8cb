package validate

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/job"
	"berth/internal/model/network"
	"berth/internal/server/state"
)

// modes are those that a group's network may have.
var modes = []string{"", network.ModeHost, network.ModeBridge, network.ModeNone}

// networked refuses groups whose network nobody can make, and such as a server of the cluster would not understand the
// records of.
func networked(s *state.Snap, j *job.Job) (errs []error) {
	older := s.Meta(nil) != nil && !s.Understands(network.Schema)
	for _, g := range j.TaskGroups {
		at := fmt.Sprintf("job %q: group %q: network", j.ID, g.Name)
		bad := func(why string) { errs = append(errs, fault.New(fault.Invalid, "register", at, why)) }
		for _, n := range g.Networks {
			if !slices.Contains(modes, n.Mode) {
				bad(fmt.Sprintf("mode %.60q is none; there are %s", n.Mode, strings.Join(modes[1:], ", ")))
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
