package permissions

import (
	"slices"

	"berth/internal/server/state"
	"berth/internal/wire"
)

// acls: whoever writes them can give himself everything. What somebody has, he may look at.
var acls = slices.Concat(
	by(atServers, wire.ACLBootstrap), // it works once
	by(holders, wire.ACLTokenSelf),
	[]entry{
		asks(wire.ACLPolicyList, func(r *wire.ACLPolicyListRequest, _ *state.Snap) []need {
			return ofSecret(r.Secret)
		}),
		asks(wire.ACLPolicyGet, func(r *wire.ACLPolicyRequest, _ *state.Snap) []need { return ofSecret(r.Secret) }),
		asks(wire.ACLPolicyPut, always[wire.ACLPolicyPutRequest](everything())),
		asks(wire.ACLPolicyDelete, always[wire.ACLDeleteRequest](everything())),
		asks(wire.ACLRoleList, always[wire.Query](everything())),
		asks(wire.ACLRoleGet, always[wire.Ref[string]](everything())),
		asks(wire.ACLRoleNamed, always[wire.Ref[string]](everything())),
		asks(wire.ACLRolePut, always[wire.ACLRolePutRequest](everything())),
		asks(wire.ACLRoleDelete, always[wire.ACLDeleteRequest](everything())),
		asks(wire.ACLTokenList, always[wire.ACLTokenListRequest](everything())),
		asks(wire.ACLTokenGet, always[wire.Ref[string]](everything())),
		asks(wire.ACLTokenPut, always[wire.ACLTokenPutRequest](everything())),
		asks(wire.ACLTokenDelete, always[wire.ACLDeleteRequest](everything())),
	},
)

// ofSecret: the handler shows what the token of the secret has, and everything without one.
func ofSecret(s wire.Secrets) []need {
	if s.Secret().Empty() {
		return everything()
	}
	return nil
}
