package httpapi

import (
	"berth/api"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/convert"
	"berth/internal/wire"
)

// keySet publishes the public parts of the cluster's signing keys, by which others check what is signed with them.
var keySet = read(wire.SigningKeys, (*request).whole, as(convert.KeySet))

// issuer says how others check the identities of tasks.
func issuer(s *Server, _ *request) (any, error) { return convert.Issuer(s.cfg.Issuer) }

var (
	keyList = read(wire.DataKeys, (*request).whole, as(convert.Keys))

	keyRotate = write(wire.DataKeyRotate, func(r *request) (*wire.RotateRequest, error) {
		return &wire.RotateRequest{Full: r.flag("full"), By: access.Peer(r.Request)}, nil
	}, func(out *wire.RotateReply) (uint64, any) {
		return out.Index, struct{ Key *api.RootKeyMeta }{convert.DataKey(&out.Key)}
	})

	keyRemove = write(wire.DataKeyRemove, func(r *request) (*wire.DataKeyRequest, error) {
		return &wire.DataKeyRequest{ID: r.PathValue("id"), By: access.Peer(r.Request)}, nil
	}, empty)
)
