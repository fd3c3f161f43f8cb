package operator

import (
	"berth/api"
	"berth/internal/wire"
)

// CA is the public form of the roots that are trusted.
func CA(out *wire.RootsReply) *api.CA {
	ca := &api.CA{
		Roots:   make([]*api.CARoot, 0, len(out.Roots)),
		Unaware: make([]*api.CANode, 0, len(out.Unaware)),
	}
	for _, r := range out.Roots {
		root := &api.CARoot{KeyID: string(r.Key), Created: r.Created, By: r.By}
		if !r.Until.IsZero() {
			root.Until = &r.Until
		}
		ca.Roots = append(ca.Roots, root)
	}
	for _, n := range out.Unaware {
		ca.Unaware = append(ca.Unaware, &api.CANode{NodeID: string(n.Node), Name: n.Name, Forgotten: n.Forgotten})
	}
	return ca
}

// ToFinish is the internal form of a request to forget the roots before the present one.
func ToFinish(body *api.CAFinishRequest, _, by string) (*wire.FinishRootRequest, error) {
	return &wire.FinishRootRequest{Force: body.Force, Reason: body.Reason, By: by}, nil
}

// ToRotate is the internal form of a request for another root, which says nothing more.
func ToRotate(_ *struct{}, _, by string) (*wire.RotateRootRequest, error) {
	return &wire.RotateRootRequest{By: by}, nil
}
