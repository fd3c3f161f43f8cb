package state

import "time"

// Stamp is when a command is applied: the Raft index and the state's own time, which never runs backwards.
type Stamp struct {
	Index uint64
	Time  time.Time
}

// Tx is a command's view of the state: it reads what it wrote.
type Tx struct {
	Snap
	stamp   Stamp
	touched []touch
	news    []News
	frozen  frozen
}

type touch struct {
	table   string
	deleted bool
}
