package convert

import (
	"encoding/base64"
	"math/big"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/model/workload"
	"berth/internal/wire"
)

// KeySet shows the public parts of signing keys as a JSON Web Key Set (RFC 7517, RFC 7518, RFC 8037).
func KeySet(keys *wire.SigningKeysReply) *api.JSONWebKeySet {
	set := &api.JSONWebKeySet{Keys: []api.JSONWebKey{}}
	for _, k := range keys.Keys {
		set.Keys = append(set.Keys, api.JSONWebKey{
			KeyType:   "OKP",
			Use:       "sig",
			KeyID:     k.ID,
			Algorithm: k.Algorithm,
			Curve:     "Ed25519",
			X:         base64.RawURLEncoding.EncodeToString(k.Public),
		})
		if len(k.RSA) > 0 {
			set.Keys = append(set.Keys, api.JSONWebKey{
				KeyType:   "RSA",
				Use:       "sig",
				KeyID:     workload.RSAID(k.ID),
				Algorithm: "RS256",
				Modulus:   base64.RawURLEncoding.EncodeToString(k.RSA),
				Exponent:  base64.RawURLEncoding.EncodeToString(big.NewInt(workload.RSAExponent).Bytes()),
			})
		}
	}
	return set
}

// Keys describes data keys to operators.
func Keys(out *wire.DataKeysReply) []*api.RootKeyMeta {
	list := make([]*api.RootKeyMeta, 0, len(out.Keys))
	for i := range out.Keys {
		list = append(list, DataKey(&out.Keys[i]))
	}
	return list
}

// DataKey describes a data key to operators.
func DataKey(k *wire.DataKey) *api.RootKeyMeta {
	out := &api.RootKeyMeta{
		KeyID:       k.ID,
		Algorithm:   "aes256-gcm",
		State:       string(k.State),
		CreateTime:  k.Created.UnixNano(),
		CreateIndex: k.CreateIndex,
		ModifyIndex: k.ModifyIndex,
		Sealed:      k.Sealed,
	}
	for _, h := range k.Holders() {
		out.Holders = append(out.Holders, h.String())
	}
	return out
}

// keySetPath is where the public parts of the keys are.
const keySetPath = "/.well-known/jwks.json"

// Issuer describes how others check what the cluster signs, where it has a name (OpenID Connect Discovery 1.0).
func Issuer(issuer string) (*api.OIDCConfiguration, error) {
	if issuer == "" {
		return nil, fault.WithHint(
			fault.New(fault.NotFound, "describe", "the issuer of identities", "this agent's configuration names none"),
			`write server { oidc_issuer = "https://…" }; the keys are at `+keySetPath)
	}
	return &api.OIDCConfiguration{
		Issuer:        issuer,
		JWKS:          issuer + keySetPath,
		ResponseTypes: []string{"code"},
		SubjectTypes:  []string{"public"},
		Algorithms:    []string{"RS256", "EdDSA"},
	}, nil
}
