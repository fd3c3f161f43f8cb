package httpapi

import (
	"berth/api"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/convert"
	"berth/internal/model/trust"
	"berth/internal/wire"
)

var (
	joinTokenCreate = write(wire.TrustAdmit, func(r *request) (*wire.AdmitRequest, error) {
		var body api.JoinTokenRequest
		if err := r.read(&body); err != nil {
			return nil, err
		}
		return &wire.AdmitRequest{
			Role: trust.Role(body.Role),
			Uses: body.Uses,
			Good: body.TTL,
			By:   access.Peer(r.Request),
		}, nil
	}, func(out *wire.AdmitReply) (uint64, any) {
		return out.Index, convert.JoinToken(out.Admission, out.Token)
	})

	joinTokenList = read(wire.TrustAdmissions, (*request).whole, as(convert.JoinTokens))

	joinTokenRevoke = write(wire.TrustRevoke, func(r *request) (*wire.RevokeRequest, error) {
		return &wire.RevokeRequest{ID: r.PathValue("id")}, nil
	}, empty)
)
