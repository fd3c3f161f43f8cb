package joining

import (
	"maps"
	"time"
)

// How many certificates are issued. Each is an entry of the log; a thousand nodes that come at once have theirs within
// ten seconds, and other calls are not held up by them.
const (
	perSecond = 100
	atOnce    = 100 // after a quiet time
	// slotKept is how long the slot of one that does not come for it is kept.
	slotKept = time.Minute
	maxSlots = 20_000
)

// pace lets those who ask in one after another: whoever finds others before him hears when his time slot is, and has it
// when he comes for it. Each has one slot: asking more often brings none forward.
type pace struct {
	next  time.Time // of the slots that nobody has
	slots map[string]time.Time
}

// slot says how long one is to wait; 0: it is let in now.
func (p *pace) slot(id string, now time.Time) time.Duration {
	if at, has := p.slots[id]; has {
		if now.Before(at) {
			return at.Sub(now)
		}
		delete(p.slots, id)
		if now.Sub(at) < slotKept {
			return 0
		}
	}
	const every = time.Second / perSecond
	if first := now.Add(-atOnce * every); p.next.Before(first) {
		p.next = first
	}
	at := p.next
	if !at.After(now) {
		p.next = at.Add(every)
		return 0
	}
	if !p.free(now) {
		return at.Sub(now) // it has no slot, and asks anew
	}
	p.next = at.Add(every)
	p.slots[id] = at
	return at.Sub(now)
}

// free tells whether there is one more slot to give.
func (p *pace) free(now time.Time) bool {
	if p.slots == nil {
		p.slots = map[string]time.Time{}
	}
	if len(p.slots) < maxSlots {
		return true
	}
	maps.DeleteFunc(p.slots, func(_ string, at time.Time) bool { return now.Sub(at) >= slotKept })
	return len(p.slots) < maxSlots
}
