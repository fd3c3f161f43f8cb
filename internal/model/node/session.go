package node

import (
	"slices"
	"time"

	"berth/internal/base/ids"
)

// Session is the newest agent start of a node that the servers accepted. A node's sessions are a chain: each names the
// one that it follows. Of two agents with one identity, a cloned disk, therefore only one is obeyed.
type Session struct {
	Node ids.Node
	// Incarnation is the state's that the session belongs to; in another one the chain begins anew.
	Incarnation string
	Epoch       string // random, of this agent start
	Machine     Machine
	Address     string // shown to people; it proves nothing
	Since       time.Time
	// Superseded are the epochs of earlier sessions, newest last, at most 16.
	Superseded []string
	// Left: the agent ended while the node held no process, mount or volume, so that nothing of this boot is left.
	Left bool
	// Open: a person said that the next registration is to be accepted, whatever it follows.
	Open bool
	// OtherBoot is an earlier boot that may still write; nil: there is none.
	OtherBoot *OtherBoot
	// Duplicated: an agent of a superseded session was seen; nil: none was.
	Duplicated *Duplicate
	// Readmission lets an agent register that has lost its store; nil: none does. It ends with the session.
	Readmission *Readmission
	Confirmed   []Confirmation // newest last, at most 10
	// Departed: the node was forgotten, and this is what is left of it; nil: it is known.
	Departed    *Departure `cbor:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

// Departure is what is kept of a node that the servers have forgotten, beside the chain of its sessions: who comes back
// with its identity is held to both, so that it is that node again, and nobody else is.
type Departure struct {
	Time       time.Time
	SecretHash string // as in Node
	Name       string // of the node, then
}

// Depart returns what stays of the session when its node is forgotten. s is nil where none is known in the present
// incarnation: the next registration begins the chain.
func (s *Session) Depart(id ids.Node, d Departure) *Session {
	n := Session{Node: id, Open: true}
	if s != nil {
		n = *s
	}
	n.Departed = &d
	return &n
}

// Machine tells one machine, and one boot of it, from another.
type Machine struct {
	Boot    string // the kernel's id of the boot
	Product string // the SMBIOS product uuid; empty: it can't be read
	ID      string // the machine id; empty: there is none
}

// OtherBoot is a boot of which nothing proves that it has ended: the node came back with another boot on what may be
// another machine.
type OtherBoot struct {
	Machine Machine
	Address string
	Index   uint64 // claims up to here may be in use there
	Since   time.Time
}

// Duplicate is an agent that acts under the node's identity beside the accepted one.
type Duplicate struct {
	Epoch   string
	Address string
	Since   time.Time
}

// Confirmation is a person's word that nothing but the accepted session of a node writes any more.
type Confirmation struct {
	Time   time.Time
	By     string
	Reason string
}

// Readmission is a person's permission that one agent start which follows nothing takes up a node's identity: the
// store that knew what it follows was lost. It is shown by a token, and is gone with the session that begins by it.
type Readmission struct {
	TokenHash string // the token itself is kept by nobody
	By        string
	Reason    string
	Expires   time.Time
}

// Readmits reports whether the token of a hash lets an agent register at a time.
func (s *Session) Readmits(tokenHash string, at time.Time) bool {
	return s != nil && s.Readmission != nil && tokenHash != "" && s.Readmission.TokenHash == tokenHash &&
		at.Before(s.Readmission.Expires)
}

// Readmitting reports whether a person lets somebody take up the node's identity anew at a time, whose token is looked
// at when he registers.
func (s *Session) Readmitting(at time.Time) bool {
	return s != nil && s.Readmission != nil && at.Before(s.Readmission.Expires)
}

// Registration is what an agent says of its start.
type Registration struct {
	// Previous are the epochs of which one should be the stored one: the last that was accepted, and those of later
	// starts that were never answered.
	Previous []string
	Next     string
	Machine  Machine
	Address  string
	// InProcess: the node runs in the process of the server.
	InProcess bool
}

const (
	keptEpochs        = 16
	keptConfirmations = 10
)

// Follow returns the session that a registration begins. s is the one before; nil: there was none.
func (s *Session) Follow(r Registration, at uint64, now time.Time) *Session {
	n := &Session{
		Epoch:   r.Next,
		Machine: r.Machine,
		Address: r.Address,
		Since:   now,
	}
	if s == nil {
		return n
	}
	n.OtherBoot, n.Duplicated = s.OtherBoot, s.Duplicated
	n.Confirmed = s.Confirmed
	n.Superseded = append(slices.Clone(s.Superseded), s.Epoch)
	n.Superseded = n.Superseded[max(0, len(n.Superseded)-keptEpochs):]
	if !s.Left && !s.Open && !s.Machine.over(r) {
		n.OtherBoot = &OtherBoot{
			Machine: s.Machine,
			Address: s.Address,
			Index:   at,
			Since:   now,
		}
	}
	return n
}

// Confirm returns the session after a person's word. open lets the next registration follow whatever it names.
func (s *Session) Confirm(c Confirmation, open bool) *Session {
	n := *s
	n.OtherBoot, n.Duplicated = nil, nil
	n.Open = open
	n.Confirmed = append(slices.Clone(s.Confirmed), c)
	n.Confirmed = n.Confirmed[max(0, len(n.Confirmed)-keptConfirmations):]
	return &n
}

// Doubt says why the word of a node does not end its claim that began at an index, or give it again; empty: it does.
func (s *Session) Doubt(began uint64) string {
	switch {
	case s == nil:
	case s.Duplicated != nil:
		return "two agents act as node " + ids.Short(s.Node) + way(s.Node)
	case s.OtherBoot != nil && began <= s.OtherBoot.Index:
		return "other boot of node " + ids.Short(s.Node) + " not proven dead" + way(s.Node)
	}
	return ""
}

// Elsewhere reports whether the accepted session is certainly on another machine than a boot that may still write.
func (s *Session) Elsewhere() bool {
	if s == nil || s.OtherBoot == nil {
		return false
	}
	was := s.OtherBoot.Machine
	return !agree(was.Product, s.Machine.Product) || !agree(was.ID, s.Machine.ID)
}

// Doubted says what people are to know of a node's session; empty: nothing.
func (s *Session) Doubted() string {
	if s == nil {
		return ""
	}
	return s.Doubt(0)
}

func way(id ids.Node) string {
	return " (when nothing else of it runs: berth node reboot-confirm -reason … " + ids.Short(id) + ")"
}
