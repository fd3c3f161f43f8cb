package api

import "time"

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

// ACLPolicy is a named set of rules.
type ACLPolicy struct {
	Name        string
	Description string
	Rules       string
	RulesJSON   map[string]any `json:",omitempty"`
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

// JobACL ties a policy to a job, a group or a task.
type JobACL struct {
	Namespace string
	JobID     string
	Group     string
	Task      string
}

// ACLTokenListStub is a token in a list, without its secret.
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
