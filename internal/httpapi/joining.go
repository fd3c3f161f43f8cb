package httpapi

import (
	"berth/internal/httpapi/convert"
	"berth/internal/wire"
)

var (
	joinTokenCreate = write(wire.TrustAdmit, body((*request).read, convert.ToJoinToken), convert.MadeJoinToken)

	joinTokenList = read(wire.TrustAdmissions, (*request).whole, as(convert.JoinTokens))

	joinTokenRevoke = write(wire.TrustRevoke, func(r *request) (*wire.RevokeRequest, error) {
		return &wire.RevokeRequest{ID: r.PathValue("id")}, nil
	}, empty)
)
