package acls

import (
	"bytes"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/acl"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// TokenPut writes a token: a new one, or one that there is.
type TokenPut struct {
	New        bool
	Accessor   string
	SecretHash []byte // of a new one; of one that there is nothing, or what it has
	Name       string
	Type       acl.TokenType
	Policies   []string
	Roles      []string // ids
	Global     bool
	// Lives is how long a new one lives, Expires when that ends: one of them or neither. Of one that there is nothing,
	// or what it has: no write changes how long a token lives.
	Lives   time.Duration
	Expires time.Time
	// Bounds of a life, as the server that proposes is configured.
	Shortest, Longest time.Duration
}

// maxForgotten bounds the expired tokens that one new one takes away.
const maxForgotten = 100

// Apply returns the stored *acl.Token.
func (c *TokenPut) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	t := &acl.Token{
		Accessor:   c.Accessor,
		SecretHash: c.SecretHash,
		Name:       c.Name,
		Type:       c.Type,
		Policies:   unique(c.Policies),
		Roles:      unique(c.Roles),
		Global:     c.Global,
	}
	var err error
	if c.New {
		err = c.begin(tx, t, st.Time)
	} else {
		err = c.change(tx, t, st.Time)
	}
	if err != nil {
		return nil, err
	}
	if err := known(tx, fmt.Sprintf("%s %q", AToken, t.Name), t.Policies, t.Roles); err != nil {
		return nil, err
	}
	tx.PutACLToken(t)
	return t, nil
}

// begin says when a new token's life begins and ends.
func (c *TokenPut) begin(tx *state.Tx, t *acl.Token, now time.Time) error {
	t.Created = now
	t.Expires = c.Expires
	if c.Lives != 0 {
		t.Expires = now.Add(c.Lives)
	}
	switch {
	case c.Lives != 0 && !c.Expires.IsZero():
		return fault.New(fault.Invalid, "make", AToken,
			"it has both a time to live and a time when it expires; give one")
	case len(t.SecretHash) == 0:
		return fault.New(fault.Internal, "make", AToken, "it has no secret")
	}
	if err := t.Validate(acl.Life{Min: c.Shortest, Max: c.Longest}); err != nil {
		return err
	}
	if err := admit(tx, t, now); err != nil {
		return err
	}
	living := func(yield func(*acl.Token) bool) {
		for old := range tx.ACLTokens(nil, "") {
			if !old.Expired(now) && !yield(old) {
				return
			}
		}
	}
	if !below(living, MaxTokens) {
		return full(AToken, MaxTokens, "look at them with berth acl token list, delete some, and let new ones expire")
	}
	return nil
}

// change takes from the token that there is what no write changes.
func (c *TokenPut) change(tx *state.Tx, t *acl.Token, now time.Time) error {
	old := tx.ACLToken(nil, t.Accessor)
	if old == nil || old.Expired(now) {
		return Gone(AToken)
	}
	lives := old.Expires.Sub(old.Created)
	fixed := func(what string) error {
		return fault.WithHint(
			fault.New(fault.Invalid, "update", AToken+" "+t.Accessor, "its "+what+" stays as it was made"),
			"leave it out, or make another token and delete this one")
	}
	switch {
	case len(t.SecretHash) > 0 && !bytes.Equal(t.SecretHash, old.SecretHash):
		return fixed("secret")
	case !c.Expires.IsZero() && !c.Expires.Equal(old.Expires),
		c.Lives != 0 && (old.Expires.IsZero() || c.Lives != lives):
		return fixed("time to live")
	}
	t.SecretHash = old.SecretHash
	t.Created = old.Created
	t.Expires = old.Expires
	return t.Validate(acl.Life{Min: lives, Max: lives}) // the bounds may have been others when it was made
}

// admit makes sure that a new token is one, and forgets some of those that have expired.
func admit(tx *state.Tx, t *acl.Token, now time.Time) error {
	if tx.ACLToken(nil, t.Accessor) != nil {
		return fault.New(fault.Invalid, "make", AToken, "there is another one of accessor "+t.Accessor)
	}
	if tx.ACLTokenHashed(nil, t.SecretHash) != nil {
		return fault.New(fault.Invalid, "make", AToken, "there is another one of this secret")
	}
	forget(tx, now, maxForgotten)
	return nil
}

// forget removes tokens that have expired, at most so many, and returns how many.
func forget(tx *state.Tx, now time.Time, most int) int {
	var over []string
	for t := range tx.ACLTokensByExpiry() {
		if len(over) >= most || !t.Expired(now) {
			break
		}
		over = append(over, t.Accessor)
	}
	for _, accessor := range over {
		tx.DeleteACLToken(accessor)
	}
	return len(over)
}

// TokenDelete removes a token: its secret lets nobody in any more.
type TokenDelete struct{ Accessor string }

// Apply returns nil.
func (c *TokenDelete) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	if !tx.DeleteACLToken(c.Accessor) {
		return nil, Gone(AToken)
	}
	return nil, nil
}

// Releases is true: it takes something away.
func (c *TokenDelete) Releases() bool { return true }

// Bootstrap makes the first token, which may do everything: once, and again only for who names the index of the last
// time.
type Bootstrap struct {
	Accessor   string
	SecretHash []byte
	Reset      uint64
}

// Apply returns the stored *acl.Token. It is made however many there are: it is the way back in.
func (c *Bootstrap) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	if done := tx.ACLBootstrap(nil); done != nil && c.Reset != done.ModifyIndex {
		return nil, Bootstrapped(done.ModifyIndex)
	}
	t := &acl.Token{
		Accessor:   c.Accessor,
		SecretHash: c.SecretHash,
		Name:       "Bootstrap Token",
		Type:       acl.ManagementToken,
		Global:     true,
		Created:    st.Time,
	}
	if err := admit(tx, t, st.Time); err != nil {
		return nil, err
	}
	tx.PutACLToken(t)
	tx.PutACLBootstrap(&state.ACLBootstrap{Accessor: t.Accessor})
	return t, nil
}

// Bootstrapped refuses to make the first token again, by the words that clients of the API know.
func Bootstrapped(index uint64) error {
	return fault.New(fault.Invalid, "", "", fmt.Sprintf("ACL bootstrap already done (reset index: %d)", index))
}

// TokensExpire forgets tokens that have expired, the oldest first.
type TokensExpire struct {
	Most int // so many
}

// Apply returns how many it forgot, as an int.
func (c *TokensExpire) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	return forget(tx, st.Time, c.Most), nil
}

// Releases is true: it takes something away.
func (c *TokensExpire) Releases() bool { return true }
