package filter

import (
	"fmt"
	"strings"

	"berth/internal/model/job"
	"berth/internal/model/node"
)

// unshown is the task of the group that could not have a volume on a node, because the node gives tasks of its driver
// users of their own and the volume's file system keeps owners as they are; nil: there is none, or only the node can
// tell, by trying.
func (c *CSI) unshown(w *Want, n *node.Node) *job.Task {
	if w.volume == nil || !effectiveOptions(w.volume, w.Request).KeepsOwners() {
		return nil
	}
	for _, t := range c.group.Tasks {
		if n.Attributes[ownUsers(t.Driver)] == "" || actsOnTheNode(t) {
			continue
		}
		for _, m := range t.VolumeMounts {
			if m.Volume == w.Request.Name {
				return t
			}
		}
	}
	return nil
}

// ownUsers is the attribute of nodes on which tasks of a driver have user namespaces.
func ownUsers(driver string) string { return "driver." + driver + ".user_namespaces" }

// actsOnTheNode reports whether a task may have the node's users all the same: as a storage plugin of the node, or by
// sharing the node's processes or memory. A plugin that is a controller alone is a task as others.
func actsOnTheNode(t *job.Task) bool {
	for _, mode := range []string{"pid_mode", "ipc_mode"} {
		if m, set := t.Config[mode]; set && m != "" && m != "private" {
			return true
		}
	}
	return t.CSIPluginConfig != nil && t.CSIPluginConfig.NodeRole()
}

func unshownReason(w *Want, t *job.Task) (reason, hint string) {
	fs := strings.ToUpper(effectiveOptions(w.volume, w.Request).FSType)
	return fmt.Sprintf("volume %q is %s, which cannot show other numbers of users, as the user namespaces of "+
			"driver %s on this node need it for task %q", w.ID.ID, fs, t.Driver, t.Name),
		"have the group run on a node without user_namespaces: the operator is_not_set on ${attr." +
			ownUsers(t.Driver) + "} finds one; or use a volume on ext4, xfs or btrfs"
}

// unshownKey is the key by which metrics count such nodes.
func unshownKey(w *Want, n *node.Node) string {
	return fmt.Sprintf("CSI volume %s cannot be shown in a user namespace on client %s", w.ID.ID, n.ID)
}
