// Package raftlog owns the replicated log: it wraps a Raft implementation and its write-ahead log, brings entries to a
// state machine in order, says who leads, and says loudly when the disk is full or a write to it failed. Only package
// server constructs it; package fsm implements its StateMachine.
package raftlog

import "io"

// Entry is one committed entry of the log.
type Entry struct {
	Index uint64
	Data  []byte
}

// StateMachine is what the log drives. Its methods are called by one goroutine at a time; the function that Snapshot
// returns may run beside later ApplyBatch calls.
type StateMachine interface {
	// ApplyBatch returns one result for each entry; a result that is an error is what the proposer gets.
	ApplyBatch(entries []Entry) []any
	// Snapshot freezes the state and returns what writes it.
	Snapshot() (func(io.Writer) error, error)
	Restore(r io.Reader) error
}
