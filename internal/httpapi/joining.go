package httpapi

import (
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/convert/operator"
	"berth/internal/wire"
)

var (
	joinTokenCreate = calls.Write(wire.TrustAdmit, calls.Form((*calls.Request).Read, convert.ToJoinToken),
		convert.MadeJoinToken)
	joinTokenList = calls.Read(wire.TrustAdmissions, (*calls.Request).Whole, calls.As(convert.JoinTokens))

	joinTokenRevoke = calls.Write(wire.TrustRevoke, func(r *calls.Request) (*wire.RevokeRequest, error) {
		return &wire.RevokeRequest{ID: r.PathValue("id")}, nil
	}, calls.Empty)

	caGet    = calls.Read(wire.TrustRoots, (*calls.Request).Whole, calls.As(operator.CA))
	caRotate = calls.Write(wire.TrustRotate, calls.Form((*calls.Request).ReadOptional, operator.ToRotate), calls.Empty)
	caFinish = calls.Write(wire.TrustFinish, calls.Form((*calls.Request).ReadOptional, operator.ToFinish), calls.Empty)
)
