package wire

import (
	"berth/internal/base/ids"
	"berth/internal/model/recovery"
)

// Methods by which people take care of the servers' state; served by the server half.
var (
	RecoveryStatus  = Unary[Query, RecoveryView]("Recovery.Status")
	RecoveryBegin   = Unary[RecoveryWord, Written]("Recovery.Begin")
	RecoveryFinish  = Unary[RecoveryWord, Written]("Recovery.Finish")
	RecoveryDismiss = Unary[RecoveryWord, Written]("Recovery.Dismiss")
	StateSave       = Bidi[Empty, Empty, StateChunk]("State.Save")
	StateRestore    = Bidi[RecoveryWord, StateChunk, Written]("State.Restore")
)

// RecoveryWord is a person's word about the servers' state, or about one node.
type RecoveryWord struct {
	Node   ids.Node
	Reason string
	By     string // as the API knows them
	// RecoveryKey opens what is sealed in a state that is restored; empty: the servers open it.
	RecoveryKey Secrets
}

// recoveryPart names a recovery key among secrets on the wire.
const recoveryPart = "recovery key"

// SealRecoveryKey takes the text of a recovery key onto the wire; empty: there is none.
func SealRecoveryKey(text string) Secrets {
	if text == "" {
		return Secrets{}
	}
	return Secrets{Values: map[string]string{recoveryPart: text}}
}

// RecoveryKey is the text of a recovery key; empty: there is none.
func (s Secrets) RecoveryKey() string { return s.Values[recoveryPart] }

// StateChunk is a part of a saved state; the last one says so.
type StateChunk struct {
	Data []byte
	Last bool
}

// RecoveryView is a recovery with all that it waits for, what nodes show against the state, and the ways out.
type RecoveryView struct {
	Meta
	Record   *recovery.Record // nil: the state was never restored
	Nodes    []RecoveryNode
	Evidence []*recovery.Evidence // that stands
	// Suspended is what waits until a person asks for it again.
	Suspended []SuspendedIntent
	// Held are allocs that may have ended since the state was saved, and are not begun again by themselves.
	Held  []HeldAlloc
	Exits []string // what a person can do, one command each with its sentence
}

// RecoveryNode is a node of the list with what is known of it.
type RecoveryNode struct {
	ID     ids.Node
	Name   string
	State  string // "reported", "dead", "awaited"
	Detail string
	Exit   string // what ends the wait; empty where there is none
}

// SuspendedIntent is something that was asked for before the restore.
type SuspendedIntent struct {
	Kind   string // "volume" or "snapshot"
	ID     string
	Phase  string
	Resume string // the command that asks for it again
}

// HeldAlloc is an alloc of a batch job that was lost in a restore.
type HeldAlloc struct {
	Alloc     ids.Alloc
	Namespace ids.Namespace
	Job       ids.Job
	Resume    string
}
