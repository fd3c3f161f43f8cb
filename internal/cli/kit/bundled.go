package kit

import "berth/api"

// BundledPlugin is the id of the bundled storage plugin, and bundledDriver the driver that it runs with.
const (
	BundledPlugin = "local-csi"
	bundledDriver = "raw_exec"
)

// BundledBlocked says why the bundled storage plugin cannot run on a node whose agent is to run it, by the node's
// attributes and drivers; empty: it can, or is not to.
func BundledBlocked(attributes map[string]string, drivers map[string]*api.DriverInfo) string {
	if attributes[api.NodeAttributeLocalCSI] == "" {
		return ""
	}
	switch d := drivers[bundledDriver]; {
	case d == nil:
		return "local_csi is set, and the node has no driver " + bundledDriver
	case !d.Detected || !d.Healthy:
		return "local_csi is set, and driver " + bundledDriver + " is not ready: " + d.HealthDescription
	}
	return ""
}
