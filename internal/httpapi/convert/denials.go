package convert

import (
	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/wire"
)

// ToRebootConfirm is the internal form of a person's word that a node was rebooted.
func ToRebootConfirm(body *api.NodeRebootConfirmRequest, id, by string) (*wire.RebootConfirmRequest, error) {
	return &wire.RebootConfirmRequest{Node: ids.Node(id), Reason: body.Reason, By: by}, nil
}

// ToReadmit is the internal form of a request for the token of a readmission.
func ToReadmit(body *api.NodeReadmitRequest, id, by string) (*wire.ReadmitRequest, error) {
	return &wire.ReadmitRequest{Node: ids.Node(id), Reason: body.Reason, By: by, TTL: body.TTL}, nil
}

// ToDenial is the internal form of a person's word that a node is denied, or is so no more.
func ToDenial(body *api.NodeDenialRequest, id, by string) (*wire.DenialRequest, error) {
	return &wire.DenialRequest{Node: ids.Node(id), Reason: body.Reason, By: by}, nil
}

// Denials is the public form of the list of nodes that are denied.
func Denials(out *wire.DenialsReply) []*api.NodeDenial {
	list := make([]*api.NodeDenial, 0, len(out.Members))
	for _, m := range out.Members {
		list = append(list, &api.NodeDenial{
			NodeID: m.ID,
			Name:   m.Denied.Name,
			Key:    string(m.Key),
			Since:  m.Denied.Since,
			By:     m.Denied.By,
			Reason: m.Denied.Reason,
		})
	}
	return list
}
