package oracle

import (
	"encoding/json"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// wish is what a call wants to make; it keeps its arguments until the call that takes it away has succeeded.
type wish struct {
	rpc                  csi.RPC
	plugin, node, target string
	object               string // volume id, or the name of what is created
}

// arguments judges invariant I6: whoever repeats a call repeats its arguments, secrets excepted.
type arguments struct {
	hash  map[wish]string
	named map[vol]wish // the id that a creation has answered
}

func newArguments() *arguments { return &arguments{hash: map[wish]string{}, named: map[vol]wish{}} }

func wishOf(c *call) (wish, bool) {
	k := wish{rpc: c.rpc, plugin: c.Plugin, object: c.Volume}
	switch c.rpc {
	case csi.CreateVolume:
	case csi.ControllerPublishVolume, csi.NodeStageVolume:
		k.node = c.Node
	case csi.NodePublishVolume:
		k.node, k.target = c.Node, c.Target
	case csi.CreateSnapshot, csi.CreateVolumeGroupSnapshot:
		k.object = c.Object
	default:
		return k, false
	}
	return k, true
}

func (a *arguments) begin(w *world, c *call) {
	k, ok := wishOf(c)
	if !ok {
		return
	}
	if was, known := a.hash[k]; known && was != c.Hash {
		w.violate("I6", c.Entry, "%s of %q repeated with other arguments (%s, before %s) and nothing undone between",
			c.RPC, k.object, c.Hash, was)
	}
}

func (a *arguments) end(w *world, c *call) {
	if k, ok := wishOf(c); ok {
		if _, known := a.hash[k]; !known && (c.ok() || finality(c) == csi.Unknown) {
			a.hash[k] = c.Hash
		}
		if c.ok() {
			a.named[vol{c.Plugin, answeredID(c)}] = k
		}
		return
	}
	if !c.ok() {
		return
	}
	switch c.rpc {
	case csi.NodeUnpublishVolume:
		delete(a.hash, wish{csi.NodePublishVolume, c.Plugin, c.Node, c.Target, c.Volume})
	case csi.NodeUnstageVolume:
		delete(a.hash, wish{rpc: csi.NodeStageVolume, plugin: c.Plugin, node: c.Node, object: c.Volume})
	case csi.ControllerUnpublishVolume:
		for k := range a.hash {
			if k.rpc == csi.ControllerPublishVolume && k.plugin == c.Plugin && k.object == c.Volume &&
				(c.Node == "" || k.node == c.Node) {
				delete(a.hash, k)
			}
		}
	case csi.DeleteVolume:
		delete(a.hash, a.named[c.vol()])
	case csi.DeleteSnapshot, csi.DeleteVolumeGroupSnapshot:
		delete(a.hash, a.named[vol{c.Plugin, c.Object}])
	}
}

func (*arguments) mark(*world, proxy.Entry) {}

// answeredID is the id of what a call has created.
func answeredID(c *call) string {
	var answer struct {
		Volume struct {
			ID string `json:"volume_id"`
		} `json:"volume"`
		Snapshot struct {
			ID string `json:"snapshot_id"`
		} `json:"snapshot"`
		Group struct {
			ID string `json:"group_snapshot_id"`
		} `json:"group_snapshot"`
	}
	if json.Unmarshal(c.Answer, &answer) != nil {
		return ""
	}
	return answer.Volume.ID + answer.Snapshot.ID + answer.Group.ID
}

// paths judges invariant I7: one staging path for the staged life of a volume on a node, and no target for two volumes.
type paths struct {
	owner map[[2]string]vol // node and target to the volume published there
}

func newPaths() *paths { return &paths{owner: map[[2]string]vol{}} }

func (p *paths) begin(w *world, c *call) {
	switch c.rpc {
	case csi.NodeStageVolume, csi.NodeUnstageVolume, csi.NodePublishVolume, csi.NodeExpandVolume,
		csi.NodeGetVolumeStats:
		if at := w.path[c.place()]; at != "" && c.Staging != "" && at != c.Staging {
			w.violate("I7", c.Entry, "%s names the staging path %s, but the volume is staged at %s", c.RPC, c.Staging,
				at)
		}
	}
	if c.rpc != csi.NodePublishVolume {
		return
	}
	key := [2]string{c.Node, c.Target}
	if o, ok := p.owner[key]; ok && o != c.vol() && w.published[spot{place{o, c.Node}, c.Target}] != absent {
		w.violate("I7", c.Entry, "the target is in use for volume %q", o.id)
	}
	p.owner[key] = c.vol()
}

func (*paths) end(*world, *call)        {}
func (*paths) mark(*world, proxy.Entry) {}
