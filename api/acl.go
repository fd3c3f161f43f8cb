package api

import "time"

// Types of tokens of access control lists.
const (
	ACLClientToken     = "client"     // may do what its policies and roles say
	ACLManagementToken = "management" // may do everything
)

// ACLBootstrapRequest is the body of acl bootstrap.
type ACLBootstrapRequest struct {
	BootstrapSecret string
}

// ACLToken is a bearer of rights. SecretID is only there where the caller may see it.
type ACLToken struct {
	AccessorID     string
	SecretID       string `json:",omitempty"`
	Name           string
	Type           string // client or management
	Policies       []string
	Roles          []*ACLTokenRoleLink
	Global         bool
	Hash           []byte
	CreateTime     time.Time
	ExpirationTime *time.Time
	ExpirationTTL  string
	CreateIndex    uint64
	ModifyIndex    uint64
}

// ACLTokenRoleLink names a role of a token.
type ACLTokenRoleLink struct {
	ID   string
	Name string
}

// ACLTokenListStub is a token in a list.
type ACLTokenListStub struct {
	AccessorID     string
	Name           string
	Type           string
	Policies       []string
	Roles          []*ACLTokenRoleLink
	Global         bool
	Hash           []byte
	CreateTime     time.Time
	ExpirationTime *time.Time
	CreateIndex    uint64
	ModifyIndex    uint64
}

// ACLPolicy is a text of rules under a name.
type ACLPolicy struct {
	Name        string
	Description string
	Rules       string
	// RulesJSON is what the text says, in the answers of agents.
	RulesJSON   *ACLRules `json:",omitempty"`
	JobACL      *JobACL
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLPolicyListStub is a policy in a list.
type ACLPolicyListStub struct {
	Name        string
	Description string
	JobACL      *JobACL
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// JobACL gives a policy to the tasks of a job, of a group or of one task, which have it by their identities.
type JobACL struct {
	Namespace string
	JobID     string
	Group     string
	Task      string
}

// ACLRules is what the text of a policy says, block by block.
type ACLRules struct {
	Namespaces   []*ACLNamespaceRule
	NodePools    []*ACLNamedRule
	HostVolumes  []*ACLNamedRule
	Agent        *ACLRule
	Node         *ACLRule
	Operator     *ACLRule
	Quota        *ACLRule
	Plugin       *ACLRule
	Sentinel     *ACLRule
	Raw          string
	ExtraKeysHCL []string
}

// ACLRule is a block without a name.
type ACLRule struct {
	Policy string
}

// ACLNamedRule is a block for the names that match a pattern.
type ACLNamedRule struct {
	Name         string
	Policy       string
	Capabilities []string // those that the policy stands for, too
}

// ACLNamespaceRule is a block for the namespaces whose names match a pattern.
type ACLNamespaceRule struct {
	Name         string
	Policy       string
	Capabilities []string
	Variables    *ACLVariablesRule
}

// ACLVariablesRule is what a block says of variables.
type ACLVariablesRule struct {
	Paths []*ACLPathRule
}

// ACLPathRule is what it says of those whose paths match a pattern.
type ACLPathRule struct {
	PathSpec     string
	Capabilities []string
}

// ACLRole is a list of policies under a name.
type ACLRole struct {
	ID          string
	Name        string
	Description string
	Policies    []*ACLRolePolicyLink
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLRolePolicyLink names a policy of a role.
type ACLRolePolicyLink struct {
	Name string
}
