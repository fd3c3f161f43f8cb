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
