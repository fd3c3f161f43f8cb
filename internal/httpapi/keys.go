package httpapi

import (
	"berth/internal/httpapi/convert"
	"berth/internal/wire"
)

// keySet publishes the public parts of the cluster's signing keys, by which others check what is signed with them.
var keySet = read(wire.SigningKeys, (*request).whole, func(_ *request, out *wire.SigningKeysReply) (any, error) {
	return convert.KeySet(out.Keys), nil
})

var keyList = read(wire.SigningKeys, (*request).whole, func(_ *request, out *wire.SigningKeysReply) (any, error) {
	return convert.Keys(out.Keys), nil
})
