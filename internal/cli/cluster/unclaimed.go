package cluster

import (
	"cmp"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// unclaimed tells what the node says to hold although nothing on it has a claim of it.
func (s *nodeStatus) unclaimed(n *api.Node) {
	if len(n.UnclaimedVolumes) == 0 {
		return
	}
	id := kit.ID(n.ID, false)
	s.env.Out.Section("Volumes Without a Claim")
	s.env.Out.Notice("By the node's word alone, and given to nobody else while it says so. " +
		`Allocations of before a restore are shown by "berth node orphans list". ` +
		"If the node is not to be believed: berth node deny -reason … " + id + ", and when it is down: " +
		"berth node replace -reason … " + id + " OTHER")
	kit.List(s.env.Out, n.UnclaimedVolumes, "volumes", []string{"Volume", "Plugin", "State", "Allocs"},
		func(v *api.NodeUnclaimedVolume) []string {
			var allocs []string
			for _, a := range v.Allocs {
				allocs = append(allocs, kit.ID(a, s.verbose))
			}
			return []string{cmp.Or(v.VolumeID, v.ExternalID), v.PluginID, v.State, strings.Join(allocs, ",")}
		})
}
