package variable

import (
	"fmt"
	"time"
)

// Conflict says why a write was not made: what is there is another thing than the writer took it for. Empty: it was.
type Conflict string

// NotHeld is the conflict of who believes to hold a lock.
const NotHeld Conflict = "it is not locked by the id that was given: that lock was lost, or is another one's"

// Write is what somebody wants of the variable at a path.
type Write struct {
	// Check is the index of the variable that the writer has seen, 0 for none at all; nil: whatever is there.
	Check *uint64
	// Lock is the id of the lock by which the writer writes; empty: by none.
	Lock string
}

// Allowed tells whether a write may be made on what is there, nil for nothing. A lock is in the way of everybody but
// its holder; one that the writer believes to hold, and does not, is in the writer's way.
func (w Write) Allowed(now *Variable) Conflict {
	index := uint64(0)
	if now != nil {
		index = now.ModifyIndex
	}
	switch held := now.held(); {
	case held != "" && w.Lock == "":
		return "it is locked: write by the id of its lock, or wait until that is released"
	case held != w.Lock:
		return NotHeld
	case w.Check != nil && *w.Check == 0 && now != nil:
		return Conflict(fmt.Sprintf("it is there already, written at index %d", index))
	case w.Check != nil && *w.Check != index:
		return Conflict(fmt.Sprintf("it was written at index %d, not %d", index, *w.Check))
	}
	return ""
}

// held is the id of the lock that holds, empty for none.
func (v *Variable) held() string {
	if v == nil || v.Lock == nil {
		return ""
	}
	return v.Lock.ID
}

// Holds tells whether a lock is the one that holds.
func (v *Variable) Holds(lock string) bool { return lock != "" && v.held() == lock }

// Acquirable tells whether a lock may be taken on what is there at a time. Its holder may take it again, by the id that
// he brings; empty: he holds none.
func Acquirable(now *Variable, again string, at time.Time) Conflict {
	switch held := now.held(); {
	case again != "" && held != again:
		return NotHeld
	case now == nil, again != "":
		return ""
	case held != "":
		return "somebody else holds its lock: wait until that is released, or lost"
	case at.Before(now.FreeAt):
		return Conflict(fmt.Sprintf("its lock was lost, and can be acquired again in %s: whoever held it may not know "+
			"yet", now.FreeAt.Sub(at).Round(time.Second)))
	}
	return ""
}

// Released is a variable whose lock holds no longer. Where its holder did not say so it may not know, and nobody takes
// the lock before its delay is over.
func (v *Variable) Released(lost bool, at time.Time) *Variable {
	out := *v
	out.Lock = nil
	out.FreeAt = time.Time{}
	if lost && v.Lock != nil {
		out.FreeAt = at.Add(v.Lock.Delay)
	}
	return &out
}
