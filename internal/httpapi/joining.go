package httpapi

import (
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/convert/operator"
	"berth/internal/wire"
)

var (
	joinTokenCreate = write(wire.TrustAdmit, body((*request).read, convert.ToJoinToken), convert.MadeJoinToken)
	joinTokenList   = read(wire.TrustAdmissions, (*request).whole, as(convert.JoinTokens))

	joinTokenRevoke = write(wire.TrustRevoke, func(r *request) (*wire.RevokeRequest, error) {
		return &wire.RevokeRequest{ID: r.PathValue("id")}, nil
	}, empty)

	caGet    = read(wire.TrustRoots, (*request).whole, as(operator.CA))
	caRotate = write(wire.TrustRotate, body((*request).readOptional, operator.ToRotate), empty)
	caFinish = write(wire.TrustFinish, body((*request).readOptional, operator.ToFinish), empty)
)
