// Package datakey owns what is known of the keys that a cluster's secrets are sealed with: what they are for, who can
// open them, and how bytes tell by which of them they were sealed. It holds no key in clear. The servers' keyring, and
// the commands over its keys, judge by it.
package datakey

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// State says what a data key is for.
type State string

// States of a data key.
const (
	Active     State = "active"     // what is sealed now is sealed with it; one is
	Inactive   State = "inactive"   // it opens what was sealed with it
	Deprecated State = "deprecated" // nothing is sealed with it any more
)

// Key is a data key, as everybody may know it: each copy of it is sealed for one who may open it.
type Key struct {
	ID      string // UUID
	State   State
	Created time.Time
	Wraps   []Wrap // in the order of their holders

	CreateIndex, ModifyIndex uint64
}

// Kind is what a holder is.
type Kind string

// Kinds of holders.
const (
	Server   Kind = "server"   // named by its name
	Recovery Kind = "recovery" // a key that people keep, named by RecoveryID
)

// Holder is who can open a data key.
type Holder struct {
	Kind Kind
	Name string
}

// String names the holder for people.
func (h Holder) String() string { return fmt.Sprintf("%s %s", h.Kind, h.Name) }

func (h Holder) compare(o Holder) int {
	return cmp.Or(-cmp.Compare(h.Kind, o.Kind), cmp.Compare(h.Name, o.Name))
}

// Recipient is a holder with the public key that is sealed for: X25519 (RFC 7748), 32 bytes.
type Recipient struct {
	Holder
	Public []byte
}

// Wrap is the copy of a data key for one holder: an encapsulated key and what is sealed with it (RFC 9180, base mode).
type Wrap struct {
	Recipient
	Sealed []byte
}

// For returns the wrap for a public key, or nil. By its key, and not by its name: a server that took up the directory
// of another one opens what that one could.
func (k *Key) For(public []byte) *Wrap {
	for i := range k.Wraps {
		if bytes.Equal(k.Wraps[i].Public, public) {
			return &k.Wraps[i]
		}
	}
	return nil
}

// Holds says whether there is a wrap for exactly this recipient.
func (k *Key) Holds(r Recipient) bool {
	w := k.holder(r.Holder)
	return w != nil && bytes.Equal(w.Public, r.Public)
}

func (k *Key) holder(h Holder) *Wrap {
	for i := range k.Wraps {
		if k.Wraps[i].Holder == h {
			return &k.Wraps[i]
		}
	}
	return nil
}

// With returns a copy that has these wraps, each in the place of its holder's.
func (k *Key) With(wraps ...Wrap) *Key {
	out := *k
	out.Wraps = slices.DeleteFunc(slices.Clone(k.Wraps), func(w Wrap) bool {
		return slices.ContainsFunc(wraps, func(n Wrap) bool { return n.Holder == w.Holder })
	})
	out.Wraps = append(out.Wraps, wraps...)
	slices.SortFunc(out.Wraps, func(a, b Wrap) int { return a.compare(b.Holder) })
	return &out
}

// Without returns a copy that these holders have no wrap of.
func (k *Key) Without(holders ...Holder) *Key {
	out := *k
	out.Wraps = slices.DeleteFunc(slices.Clone(k.Wraps), func(w Wrap) bool {
		return slices.Contains(holders, w.Holder)
	})
	return &out
}

// Holders are who can open the key.
func (k *Key) Holders() []Holder {
	var out []Holder
	for i := range k.Wraps {
		out = append(out, k.Wraps[i].Holder)
	}
	return out
}

// Opened says whether any server can open the key.
func (k *Key) Opened() bool {
	return slices.ContainsFunc(k.Wraps, func(w Wrap) bool { return w.Kind == Server })
}

// Forms of what is sealed: its first byte.
const (
	formRoot = 1 // with the root key of a server itself; what was sealed before there were data keys
	formData = 2 // with a data key, whose id follows
)

// idSize is the length of a key's id, a UUID, among sealed bytes.
const idSize = 36

// Root begins what is sealed with a server's own key.
func Root() []byte { return []byte{formRoot} }

// Head begins what is sealed with a data key.
func Head(id string) []byte { return append([]byte{formData}, id...) }

// Split reads the beginning of sealed bytes: the id of the data key, empty for a server's own key, and what follows.
func Split(sealed []byte) (id string, rest []byte, ok bool) {
	switch {
	case len(sealed) > 0 && sealed[0] == formRoot:
		return "", sealed[1:], true
	case len(sealed) > idSize && sealed[0] == formData:
		return string(sealed[1 : 1+idSize]), sealed[1+idSize:], true
	}
	return "", nil, false
}

// Under says whether bytes are sealed with a data key.
func Under(sealed []byte, id string) bool {
	by, _, ok := Split(sealed)
	return ok && by == id
}

// Join lists holders for people.
func Join(holders []Holder) string {
	out := make([]string, len(holders))
	for i, h := range holders {
		out[i] = h.String()
	}
	return strings.Join(out, ", ")
}
