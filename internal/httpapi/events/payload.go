package events

import (
	"berth/api"
	"berth/internal/base/redact"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/convert/deployments"
	"berth/internal/httpapi/convert/lists"
	"berth/internal/httpapi/convert/partitions"
	"berth/internal/httpapi/convert/services"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// payload is the object of an event in its public form, under the name by which clients look for it.
func payload(o *wire.EventObject) (name string, public any) {
	switch {
	case o.Job != nil:
		return "Job", convert.FromJobView(o.Job)
	case o.Eval != nil:
		return "Evaluation", convert.Eval(o.Eval, nil)
	case o.Alloc != nil:
		out := convert.Alloc(*o.Alloc, nil)
		out.Job = nil // it is an event of its own
		return "Allocation", out
	case o.Deployment != nil:
		return "Deployment", deployments.Deployment(o.Deployment)
	case o.Node != nil:
		return "Node", convert.Node(o.Node)
	case o.NodePool != nil:
		return "NodePool", partitions.NodePool(o.NodePool)
	case o.Service != nil:
		return "Service", services.Registration(o.Service)
	}
	return stored(o)
}

// stored are the payloads of storage and of access control lists.
func stored(o *wire.EventObject) (name string, public any) {
	switch {
	case o.Volume != nil:
		return "Volume", convert.Volume(o.Volume)
	case o.Claim != nil:
		return "Claim", claim(o.Claim)
	case o.Plugin != nil:
		return "Plugin", convert.Plugin(o.Plugin)
	case o.Token != nil:
		return "ACLToken", lists.ACLToken(o.Token, redact.Secret{})
	case o.Policy != nil:
		return "ACLPolicy", lists.ACLPolicy(o.Policy)
	case o.Role != nil:
		return "ACLRole", lists.ACLRole(o.Role)
	}
	return "", nil
}

func claim(c *volume.Claim) *api.ClaimEvent {
	return &api.ClaimEvent{
		Namespace:   string(c.Volume.Namespace),
		VolumeID:    string(c.Volume.ID),
		PluginID:    string(c.Plugin),
		AllocID:     string(c.Alloc),
		NodeID:      string(c.Node),
		JobID:       string(c.Job),
		AccessMode:  string(c.AccessMode),
		ReadOnly:    c.ReadOnly,
		State:       string(c.State),
		Reason:      c.Reason,
		CreateIndex: c.CreateIndex,
		ModifyIndex: c.ModifyIndex,
	}
}
