package httpapi

import (
	"berth/internal/httpapi/convert/lists"
	"berth/internal/model/acl"
	"berth/internal/wire"
)

// What is read and written of access control lists.
var (
	aclBootstrap = write(wire.ACLBootstrap,
		body((*request).readOptional, lists.ToACLBootstrap), lists.WrittenACLToken)

	aclPolicyRows   = listed((*acl.Policy).Key, lists.ACLPolicyStub)
	aclPolicyList   = read(wire.ACLPolicyList, (*request).aclPolicies, aclPolicyRows)
	aclPolicySelf   = read(wire.ACLPolicyList, (*request).aclOwn, aclPolicyRows)
	aclPolicyGet    = read(wire.ACLPolicyGet, (*request).aclPolicy, one("ACL policy", public(lists.ACLPolicy)))
	aclPolicyPut    = write(wire.ACLPolicyPut, body((*request).read, lists.ToACLPolicy), empty)
	aclPolicyDelete = write(wire.ACLPolicyDelete, aclDelete, empty)

	aclRoleList   = read(wire.ACLRoleList, listBy(), listed((*acl.Role).Key, lists.ACLRole))
	aclRoleGet    = read(wire.ACLRoleGet, byName[string], one("ACL role", public(lists.ACLRole)))
	aclRoleNamed  = read(wire.ACLRoleNamed, byName[string], one("ACL role", public(lists.ACLRole)))
	aclRolePut    = write(wire.ACLRolePut, body((*request).read, lists.ToACLRole), lists.WrittenACLRole)
	aclRoleDelete = write(wire.ACLRoleDelete, aclDelete, empty)

	aclTokenRows   = listed((*wire.ACLTokenView).Key, lists.ACLTokenStub)
	aclTokenList   = read(wire.ACLTokenList, (*request).aclTokens, aclTokenRows)
	aclTokenGet    = read(wire.ACLTokenGet, byName[string], one("ACL token", public(lists.ACLTokenOf)))
	aclTokenSelf   = read(wire.ACLTokenSelf, (*request).aclSelf, (*request).showSelf)
	aclTokenPut    = write(wire.ACLTokenPut, body((*request).read, lists.ToACLToken), lists.WrittenACLToken)
	aclTokenDelete = write(wire.ACLTokenDelete, aclDelete, empty)
)
