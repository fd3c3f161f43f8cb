package convert

import (
	"encoding/base64"

	"berth/api"
	"berth/internal/wire"
)

// KeySet shows the public parts of signing keys as a JSON Web Key Set (RFC 7517, RFC 8037).
func KeySet(keys []wire.SigningKey) *api.JSONWebKeySet {
	set := &api.JSONWebKeySet{Keys: []api.JSONWebKey{}}
	for _, k := range keys {
		set.Keys = append(set.Keys, api.JSONWebKey{
			KeyType:   "OKP",
			Use:       "sig",
			KeyID:     k.ID,
			Algorithm: k.Algorithm,
			Curve:     "Ed25519",
			X:         base64.RawURLEncoding.EncodeToString(k.Public),
		})
	}
	return set
}

// Keys describes signing keys to operators.
func Keys(keys []wire.SigningKey) []*api.RootKeyMeta {
	list := make([]*api.RootKeyMeta, 0, len(keys))
	for _, k := range keys {
		list = append(list, &api.RootKeyMeta{
			KeyID:       k.ID,
			Algorithm:   k.Algorithm,
			State:       "active",
			CreateTime:  k.Created.UnixNano(),
			CreateIndex: k.CreateIndex,
			ModifyIndex: k.ModifyIndex,
		})
	}
	return list
}
