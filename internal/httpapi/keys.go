package httpapi

import (
	"berth/api"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/wire"
)

// keySet publishes the public parts of the cluster's signing keys, by which others check what is signed with them.
var keySet = calls.Read(wire.SigningKeys, (*calls.Request).Whole, calls.As(convert.KeySet))

// issuer says how others check the identities of tasks.
func (s *Server) issuer(*calls.Request) (any, error) { return convert.Issuer(s.cfg.Issuer) }

var (
	keyList = calls.Read(wire.DataKeys, (*calls.Request).Whole, calls.As(convert.Keys))

	keyRotate = calls.Write(wire.DataKeyRotate, func(r *calls.Request) (*wire.RotateRequest, error) {
		return &wire.RotateRequest{Full: r.Flag("full"), By: access.Peer(r.Request)}, nil
	}, func(out *wire.RotateReply) (uint64, any) {
		return out.Index, struct{ Key *api.RootKeyMeta }{convert.DataKey(&out.Key)}
	})

	keyRemove = calls.Write(wire.DataKeyRemove, func(r *calls.Request) (*wire.DataKeyRequest, error) {
		return &wire.DataKeyRequest{ID: r.PathValue("id"), By: access.Peer(r.Request)}, nil
	}, calls.Empty)
)
