package wire

import (
	"time"

	"berth/internal/base/redact"
	"berth/internal/model/acl"
)

// Methods over access control lists, served by the server half.
var (
	ACLBootstrap    = Unary[ACLBootstrapRequest, ACLTokenReply]("ACL.Bootstrap")
	ACLPolicyList   = Unary[ACLPolicyListRequest, List[*acl.Policy]]("ACL.PolicyList")
	ACLPolicyGet    = Unary[ACLPolicyRequest, One[acl.Policy]]("ACL.PolicyGet")
	ACLPolicyPut    = Unary[ACLPolicyPutRequest, Written]("ACL.PolicyPut")
	ACLPolicyDelete = Unary[ACLDeleteRequest, Written]("ACL.PolicyDelete")
	ACLRoleList     = Unary[Query, List[*acl.Role]]("ACL.RoleList")
	ACLRoleGet      = Unary[Ref[string], One[acl.Role]]("ACL.RoleGet")
	ACLRoleNamed    = Unary[Ref[string], One[acl.Role]]("ACL.RoleNamed")
	ACLRolePut      = Unary[ACLRolePutRequest, ACLRoleReply]("ACL.RolePut")
	ACLRoleDelete   = Unary[ACLDeleteRequest, Written]("ACL.RoleDelete")
	ACLTokenList    = Unary[ACLTokenListRequest, List[*ACLTokenView]]("ACL.TokenList")
	ACLTokenGet     = Unary[Ref[string], One[ACLTokenView]]("ACL.TokenGet")
	ACLTokenSelf    = Unary[ACLSelfRequest, One[ACLTokenView]]("ACL.TokenSelf")
	ACLTokenPut     = Unary[ACLTokenPutRequest, ACLTokenReply]("ACL.TokenPut")
	ACLTokenDelete  = Unary[ACLDeleteRequest, Written]("ACL.TokenDelete")
)

// secretPart names the secret of a token among secrets on the wire.
const secretPart = "secret"

// SealSecret takes the secret of a token onto the wire.
func SealSecret(s redact.Secret) Secrets { return Seal(redact.Map{secretPart: s}) }

// Secret takes it off the wire. It is empty where there is none.
func (s Secrets) Secret() redact.Secret { return redact.New(s.Values[secretPart]) }

// ACLBootstrapRequest asks for the first token of all.
type ACLBootstrapRequest struct {
	Secret Secrets // that it shall have; empty: the servers make one
	By     string  // as the API knows them
}

// ACLPolicyListRequest lists the policies that whoever has a secret may see: all by management, otherwise those of the
// token. Without a secret it is all.
type ACLPolicyListRequest struct {
	Query
	Secret Secrets
}

// ACLPolicyRequest reads a policy, that whoever has a secret may see, as in lists.
type ACLPolicyRequest struct {
	Ref[string]
	Secret Secrets
}

// ACLPolicyPutRequest writes a policy.
type ACLPolicyPutRequest struct {
	Name        string
	Description string
	Rules       string
	Job         *acl.JobScope // whose tasks have it; nil: none
	By          string
}

// ACLDeleteRequest removes a policy by its name, a role by its id, or a token by its accessor.
type ACLDeleteRequest struct {
	ID string
	By string
}

// ACLRolePutRequest writes a role.
type ACLRolePutRequest struct {
	ID          string // empty: a new one
	Name        string
	Description string
	Policies    []string
	By          string
}

// ACLRoleReply is a role that was written.
type ACLRoleReply struct {
	Index uint64
	Role  *acl.Role
}

// ACLTokenListRequest lists tokens; the prefix is of their accessors.
type ACLTokenListRequest struct {
	Query
	Global bool // only those
}

// ACLTokenView is what people see of a token: nothing of its secret, and what its roles are called.
type ACLTokenView struct {
	Token *acl.Token
	Roles map[string]string // names by id; of a role that is gone there is none
}

// Key is a token's place in lists.
func (v *ACLTokenView) Key() string { return v.Token.Accessor }

// ACLSelfRequest asks for the token of a secret.
type ACLSelfRequest struct {
	Query
	Secret Secrets
}

// ACLTokenPutRequest writes a token.
type ACLTokenPutRequest struct {
	Accessor  string  // empty: a new one
	Secret    Secrets // nothing, or what the token has
	Name      string
	Type      acl.TokenType
	Policies  []string
	Roles     []string // ids
	RoleNames []string // roles, too
	Global    bool
	// Lives is how long a new one lives, Expires when that ends: one of them or neither.
	Lives   time.Duration
	Expires time.Time
	By      string
}

// ACLTokenReply is a token that was written. The secret is there where it was made, and stands nowhere else.
type ACLTokenReply struct {
	Index  uint64
	Token  *ACLTokenView
	Secret Secrets
}
