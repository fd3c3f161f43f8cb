package trust

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
)

// tokenPrefix begins a join token, so that it is recognised where it does not belong.
const tokenPrefix = "berth-join"

// sizes of a token's parts, in bytes.
const (
	tokenID  = 8
	tokenKey = 20
	tokenCA  = sha256.Size
)

// JoinToken lets one server or node join. It says which cluster it joins: who has the token makes sure, before it sends
// anything, that it speaks to that one.
type JoinToken struct {
	ID     string        // by which servers find what they know of it
	Secret redact.Secret // which they do not know
	CA     KeyID         // of the cluster's root
}

// NewJoinToken makes a token for the cluster of a root.
func NewJoinToken(root *x509.Certificate) JoinToken {
	b := make([]byte, tokenID+tokenKey)
	_, _ = rand.Read(b) // crypto/rand.Read never fails
	return JoinToken{
		ID:     encoding.EncodeToString(b[:tokenID]),
		Secret: redact.New(encoding.EncodeToString(b[tokenID:])),
		CA:     KeyOf(root),
	}
}

// Reveal is the token as it is handed over, in one word.
func (t JoinToken) Reveal() string {
	return strings.Join([]string{tokenPrefix, t.ID, t.Secret.Reveal(), string(t.CA)}, "-")
}

// ParseJoinToken reads a token. An error does not repeat it.
func ParseJoinToken(s string) (JoinToken, error) {
	refuse := func(why string) (JoinToken, error) {
		return JoinToken{}, fault.WithHint(fault.New(fault.Invalid, "read", "join token", why),
			"copy the whole line that was printed when it was made")
	}
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), tokenPrefix+"-")
	if !ok {
		return refuse("it does not begin with " + tokenPrefix)
	}
	parts := strings.Split(rest, "-")
	if len(parts) != 3 {
		return refuse(fmt.Sprintf("it has %d parts, a token has 3", len(parts)))
	}
	for i, size := range []int{tokenID, tokenKey, tokenCA} {
		if b, err := encoding.DecodeString(parts[i]); err != nil || len(b) != size {
			return refuse("it is cut off, or changed")
		}
	}
	return JoinToken{ID: parts[0], Secret: redact.New(parts[1]), CA: KeyID(parts[2])}, nil
}

// Hash is what servers keep of the token.
func (t JoinToken) Hash() []byte {
	sum := sha256.Sum256([]byte(tokenPrefix + "\x00" + t.ID + "\x00" + t.Secret.Reveal()))
	return sum[:]
}

// Bounds of admissions: an open door that is forgotten closes by itself, and what servers know of tokens stays small.
const (
	MaxAdmissions        = 1000
	MaxAdmissionUses     = 1000
	MaxAdmissionLifetime = 30 * 24 * time.Hour
)

// Admission is what servers know of a token: whom it lets in, how often, until when.
type Admission struct {
	ID   string
	Hash []byte
	Role Role
	// NodePool is the one pool in which who joins by it may be; empty: it names its pool itself. Nodes have one.
	NodePool string `cbor:",omitempty"`
	Uses     int    // left
	Expires  time.Time
	By       string // who asked for it, as the API knows them
	Created  time.Time

	CreateIndex, ModifyIndex uint64
}

// Check refuses an admission beyond the bounds.
func (a *Admission) Check(now time.Time) error {
	refuse := func(why string) error {
		return fault.New(fault.Invalid, "make", "join token", why)
	}
	switch {
	case a.Role != Node && a.Role != Server:
		return refuse(fmt.Sprintf("role %q: it is for a %s or a %s", a.Role, Node, Server))
	case a.NodePool != "" && a.Role != Node:
		return refuse("a node pool is for nodes, it is for a " + string(a.Role))
	case a.Uses < 1 || a.Uses > MaxAdmissionUses:
		return refuse(fmt.Sprintf("%d uses: it may have from 1 to %d", a.Uses, MaxAdmissionUses))
	case !a.Expires.After(now) || a.Expires.After(now.Add(MaxAdmissionLifetime)):
		return refuse(fmt.Sprintf("it would be good for %s: it may be for more than none, and for %s at most",
			a.Expires.Sub(now), MaxAdmissionLifetime))
	}
	return nil
}

// Admits says whether a token, by the hash of what was shown, lets one more principal of a role in at a time. A wrong
// secret and a token that is not known are told apart by nobody: the answer is the same.
func (a *Admission) Admits(id string, hash []byte, role Role, now time.Time) error {
	refuse := func(why string) error {
		return fault.WithHint(fault.New(fault.Denied, "join with", "token "+id, why),
			"make a new one where a server is: "+role.Create())
	}
	switch {
	case a == nil || subtle.ConstantTimeCompare(a.Hash, hash) != 1:
		return refuse("it is not known")
	case a.Role != role:
		return refuse(fmt.Sprintf("it is for a %s", a.Role))
	case now.After(a.Expires):
		return refuse("it was good until " + a.Expires.Format(time.RFC3339))
	case a.Uses < 1:
		return refuse("it has been used")
	}
	return nil
}

// Create is the command that makes a token for who joins in this role.
func (r Role) Create() string {
	if r == Server {
		return "berth operator join-token create -role server"
	}
	return "berth operator join-token create"
}
