package httpapi

import (
	"berth/internal/httpapi/convert"
	"berth/internal/model/acl"
	"berth/internal/wire"
)

// What is read and written of access control lists.
var (
	aclBootstrap = write(wire.ACLBootstrap,
		body((*request).readOptional, convert.ToACLBootstrap), convert.WrittenACLToken)

	aclPolicyRows   = listed((*acl.Policy).Key, convert.ACLPolicyStub)
	aclPolicyList   = read(wire.ACLPolicyList, (*request).aclPolicies, aclPolicyRows)
	aclPolicySelf   = read(wire.ACLPolicyList, (*request).aclOwn, aclPolicyRows)
	aclPolicyGet    = read(wire.ACLPolicyGet, (*request).aclPolicy, one("ACL policy", public(convert.ACLPolicy)))
	aclPolicyPut    = write(wire.ACLPolicyPut, body((*request).read, convert.ToACLPolicy), empty)
	aclPolicyDelete = write(wire.ACLPolicyDelete, aclDelete, empty)

	aclRoleList   = read(wire.ACLRoleList, listBy(), listed((*acl.Role).Key, convert.ACLRole))
	aclRoleGet    = read(wire.ACLRoleGet, byName[string], one("ACL role", public(convert.ACLRole)))
	aclRoleNamed  = read(wire.ACLRoleNamed, byName[string], one("ACL role", public(convert.ACLRole)))
	aclRolePut    = write(wire.ACLRolePut, body((*request).read, convert.ToACLRole), convert.WrittenACLRole)
	aclRoleDelete = write(wire.ACLRoleDelete, aclDelete, empty)

	aclTokenRows   = listed((*wire.ACLTokenView).Key, convert.ACLTokenStub)
	aclTokenList   = read(wire.ACLTokenList, (*request).aclTokens, aclTokenRows)
	aclTokenGet    = read(wire.ACLTokenGet, byName[string], one("ACL token", public(convert.ACLTokenOf)))
	aclTokenSelf   = read(wire.ACLTokenSelf, (*request).aclSelf, (*request).showSelf)
	aclTokenPut    = write(wire.ACLTokenPut, body((*request).read, convert.ToACLToken), convert.WrittenACLToken)
	aclTokenDelete = write(wire.ACLTokenDelete, aclDelete, empty)
)
