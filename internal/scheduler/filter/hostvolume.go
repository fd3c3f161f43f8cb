package filter

import (
	"fmt"

	"berth/internal/model/job"
	"berth/internal/model/node"
)

// missingHostVolumes is the key that clients of the API know.
const missingHostVolumes = "missing compatible host volumes"

// HostVolumes passes nodes that offer every host volume of the group, healthy and writable where it is written.
type HostVolumes struct {
	wants []*job.VolumeRequest
	index int
}

// Prepare implements Filter.
func (h *HostVolumes) Prepare(r *Request) bool {
	h.wants, h.index = r.Group.HostVolumes(), r.Index
	return len(h.wants) > 0
}

// Check implements Filter.
func (h *HostVolumes) Check(n *node.Node) string {
	for _, w := range h.wants {
		v := n.HostVolumes[string(w.SourceFor(h.index))]
		if v == nil || v.Unhealthy != "" || v.ReadOnly && !w.ReadOnly {
			return missingHostVolumes
		}
	}
	return ""
}

// Explain implements Filter.
func (h *HostVolumes) Explain(n *node.Node) (string, string) {
	for _, w := range h.wants {
		source := string(w.SourceFor(h.index))
		v := n.HostVolumes[source]
		switch {
		case v == nil:
			return fmt.Sprintf("the node offers no host volume %q", source),
				"add a host_volume block to its configuration"
		case v.Unhealthy != "":
			return fmt.Sprintf("host volume %q is unhealthy: %s", source, v.Unhealthy),
				"berth node status -verbose " + string(n.ID)
		case v.ReadOnly && !w.ReadOnly:
			return fmt.Sprintf("host volume %q is read-only on this node and the job writes it", source),
				"set read_only = true in the volume block"
		}
	}
	return "", ""
}
