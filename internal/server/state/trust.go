package state

import (
	"iter"

	"berth/internal/model/trust"
)

// Names of the tables of who is trusted.
const (
	Authorities = "authorities"
	Admissions  = "admissions"
	Members     = "members"
)

// deniedKeys files members that are denied by their keys.
const deniedKeys = "denied"

// present is the key of the one authority that there is.
const present = "present"

var authorities = &table[Authority]{
	name:     Authorities,
	key:      func(*Authority) Key { return KeyOf(present) },
	stamp:    stamping(func(o *Authority) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(a *Authority) uint64 { return a.ModifyIndex },
}

var admissions = &table[trust.Admission]{
	name:     Admissions,
	key:      func(a *trust.Admission) Key { return KeyOf(a.ID) },
	stamp:    stamping(func(o *trust.Admission) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(a *trust.Admission) uint64 { return a.ModifyIndex },
}

var joined = &table[trust.Member]{
	name: Members,
	key:  func(m *trust.Member) Key { return memberKey(m.Role, m.ID) },
	indexes: []index[trust.Member]{one(deniedKeys, func(m *trust.Member) Key {
		if m.Denied == nil {
			return ""
		}
		return KeyOf(string(m.Key))
	})},
	stamp:    stamping(func(o *trust.Member) (created, modified *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(m *trust.Member) uint64 { return m.ModifyIndex },
}

func memberKey(role trust.Role, id string) Key { return KeyOf(string(role), id) }

// Authority returns the cluster's, or nil.
func (s *Snap) Authority(w *Watch) *Authority { return authorities.get(s, w, KeyOf(present)) }

// PutAuthority stores the cluster's authority.
func (tx *Tx) PutAuthority(a *Authority) { authorities.put(tx, a) }

// Admission returns what is known of a join token, or nil.
func (s *Snap) Admission(w *Watch, id string) *trust.Admission {
	return admissions.get(s, w, KeyOf(id))
}

// Admissions yields what is known of all join tokens, by id.
func (s *Snap) Admissions(w *Watch) iter.Seq[*trust.Admission] { return admissions.scan(s, w, "") }

// PutAdmission stores what is known of a join token.
func (tx *Tx) PutAdmission(a *trust.Admission) { admissions.put(tx, a) }

// DeleteAdmission forgets a join token: it lets nobody in any more.
func (tx *Tx) DeleteAdmission(id string) bool { return admissions.drop(tx, KeyOf(id)) }

// Member returns a server or node that has joined, or nil.
func (s *Snap) Member(w *Watch, role trust.Role, id string) *trust.Member {
	return joined.get(s, w, memberKey(role, id))
}

// Members yields all that have joined in a role, by id.
func (s *Snap) Members(w *Watch, role trust.Role) iter.Seq[*trust.Member] {
	return joined.scan(s, w, KeyOf(string(role)))
}

// PutMember stores one that has joined.
func (tx *Tx) PutMember(m *trust.Member) { joined.put(tx, m) }

// DeleteMember forgets one that has joined: it comes in by a token alone.
func (tx *Tx) DeleteMember(role trust.Role, id string) bool {
	return joined.drop(tx, memberKey(role, id))
}

// Denied yields the members that are denied, of one key or, if that is empty, all.
func (s *Snap) Denied(w *Watch, key trust.KeyID) iter.Seq[*trust.Member] {
	if key == "" {
		return joined.find(s, w, deniedKeys, "")
	}
	return joined.find(s, w, deniedKeys, KeyOf(string(key)))
}
