package httpapi

import (
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert/lists"
	"berth/internal/model/acl"
	"berth/internal/wire"
)

// What is read and written of access control lists.
var (
	aclBootstrap = calls.Write(wire.ACLBootstrap,
		calls.Form((*calls.Request).ReadOptional, lists.ToACLBootstrap), lists.WrittenACLToken)

	aclPolicyRows   = calls.Listed((*acl.Policy).Key, lists.ACLPolicyStub)
	aclPolicyList   = calls.Read(wire.ACLPolicyList, aclPolicies, aclPolicyRows)
	aclPolicySelf   = calls.Read(wire.ACLPolicyList, aclOwn, aclPolicyRows)
	aclPolicyGet    = calls.Read(wire.ACLPolicyGet, aclPolicy, calls.One("ACL policy", calls.Public(lists.ACLPolicy)))
	aclPolicyPut    = calls.Write(wire.ACLPolicyPut, calls.Form((*calls.Request).Read, lists.ToACLPolicy), calls.Empty)
	aclPolicyDelete = calls.Write(wire.ACLPolicyDelete, aclDelete, calls.Empty)

	aclRoleList = calls.Read(wire.ACLRoleList, calls.ListBy(), calls.Listed((*acl.Role).Key, lists.ACLRole))
	aclRoleGet  = calls.Read(wire.ACLRoleGet, calls.ByName[string], calls.One("ACL role",
		calls.Public(lists.ACLRole)))
	aclRoleNamed = calls.Read(wire.ACLRoleNamed, calls.ByName[string], calls.One("ACL role",
		calls.Public(lists.ACLRole)))
	aclRolePut = calls.Write(wire.ACLRolePut, calls.Form((*calls.Request).Read, lists.ToACLRole),
		lists.WrittenACLRole)
	aclRoleDelete = calls.Write(wire.ACLRoleDelete, aclDelete, calls.Empty)

	aclTokenRows = calls.Listed((*wire.ACLTokenView).Key, lists.ACLTokenStub)
	aclTokenList = calls.Read(wire.ACLTokenList, aclTokens, aclTokenRows)
	aclTokenGet  = calls.Read(wire.ACLTokenGet, calls.ByName[string], calls.One("ACL token",
		calls.Public(lists.ACLTokenOf)))
	aclTokenSelf = calls.Read(wire.ACLTokenSelf, aclSelf, showSelf)
	aclTokenPut  = calls.Write(wire.ACLTokenPut, calls.Form((*calls.Request).Read, lists.ToACLToken),
		lists.WrittenACLToken)
	aclTokenDelete = calls.Write(wire.ACLTokenDelete, aclDelete, calls.Empty)
)
