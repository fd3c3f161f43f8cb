package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"time"
	"unicode/utf8"

	"berth/internal/base/redact"
)

// TokenType says whether a token is asked for its policies.
type TokenType string

// Types of tokens.
const (
	ClientToken     TokenType = "client"     // may do what its policies and roles say
	ManagementToken TokenType = "management" // may do everything
)

// Token is what somebody shows to be let in. Its accessor names it in public; its secret is known to whoever made it,
// and servers keep nothing of it but a hash.
type Token struct {
	Accessor    string
	Secret      redact.Secret `cbor:"-"` // empty in what is stored
	SecretHash  []byte        // HashSecret of the secret
	Name        string
	Type        TokenType
	Policies    []string // names; one that is gone gives nothing
	Roles       []string // ids; the same
	Global      bool
	Created     time.Time
	Expires     time.Time // zero: never
	CreateIndex uint64
	ModifyIndex uint64
}

// HashSecret is what servers keep of a secret, and find its token by. A secret has 122 random bits, so a hash without
// salt keeps it.
func HashSecret(secret redact.Secret) []byte {
	sum := sha256.Sum256([]byte("berth-acl-token\x00" + secret.Reveal()))
	return sum[:]
}

// Holds reports whether a secret is the token's, in a time that tells nothing of it.
func (t *Token) Holds(secret redact.Secret) bool {
	return !secret.Empty() && subtle.ConstantTimeCompare(t.SecretHash, HashSecret(secret)) == 1
}

// Expired reports whether the token is good no longer.
func (t *Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Life is how long tokens that expire may live: documented defaults of Nomad.
type Life struct{ Min, Max time.Duration }

// DefaultLife is used where the configuration says nothing.
var DefaultLife = Life{Min: time.Minute, Max: 24 * time.Hour}

// Validate checks a token that is to be stored: its type, what it refers to, and how long it lives.
func (t *Token) Validate(life Life) error {
	var problems []string
	refers := len(t.Policies) + len(t.Roles)
	switch {
	case t.Type != ClientToken && t.Type != ManagementToken:
		problems = append(problems, fmt.Sprintf("its type is %q; there are %q and %q", t.Type, ClientToken,
			ManagementToken))
	case t.Type == ClientToken && refers == 0:
		problems = append(problems, "it has neither policies nor roles, so it would give nothing; name one at least")
	case t.Type == ManagementToken && refers > 0:
		problems = append(problems, "a management token may do everything; leave its policies and roles out, or make "+
			"it a client token")
	}
	if n := utf8.RuneCountInString(t.Name); n > maxTokenName {
		problems = append(problems, fmt.Sprintf("its name has %d characters, at most %d are allowed", n, maxTokenName))
	}
	problems = append(problems, checkReferences("policies", t.Policies)...)
	problems = append(problems, checkReferences("roles", t.Roles)...)
	if lives := t.Expires.Sub(t.Created); !t.Expires.IsZero() && (lives < life.Min || lives > life.Max) {
		problems = append(problems, fmt.Sprintf("it would live %s; write a time from %s to %s, or none for a token "+
			"that does not expire", lives, life.Min, life.Max))
	}
	return refuse("token", t.Name, problems)
}
