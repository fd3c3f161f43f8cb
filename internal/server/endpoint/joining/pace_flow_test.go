package joining

import (
	"fmt"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestManyWhoComeAtOnceHaveSlots: given 500 who come at once, then the first are let in, each of the others gets
// another slot and is let in when it comes for it, and in no second more than the rate are.
func TestManyWhoComeAtOnceHaveSlots(t *testing.T) {
	var p pace
	in, waits := 0, map[string]time.Duration{}
	for i := range 500 {
		id := fmt.Sprint(i)
		if wait := p.slot(id, noon); wait > 0 {
			waits[id] = wait
			continue
		}
		in++
	}
	if in != atOnce+1 || len(waits) != 500-in {
		t.Fatalf("%d are let in at once, %d wait", in, len(waits))
	}
	seconds, seen := map[int]int{}, map[time.Duration]bool{}
	for id, wait := range waits {
		if seen[wait] {
			t.Errorf("two have the slot in %s", wait)
		}
		seen[wait] = true
		if again := p.slot(id, noon.Add(wait/2)); again != wait-wait/2 {
			t.Errorf("who asks before its slot hears %s, and before %s", again, wait-wait/2)
		}
		if left := p.slot(id, noon.Add(wait)); left != 0 {
			t.Errorf("in its slot it has to wait %s", left)
		}
		seconds[int((wait-1)/time.Second)]++
	}
	for s, n := range seconds {
		if n > perSecond {
			t.Errorf("%d slots in second %d", n, s)
		}
	}
	if len(p.slots) != 0 {
		t.Errorf("%d slots are left", len(p.slots))
	}
}

// TestWhoAsksMoreOftenHasNoMoreSlots: given one that asks without end, then who comes after it waits for one slot of
// its, not for all that it asked for.
func TestWhoAsksMoreOftenHasNoMoreSlots(t *testing.T) {
	var p pace
	for range atOnce + 1 {
		p.slot("quiet", noon) // all that is let in at once is used up
	}
	for range 10_000 {
		p.slot("loud", noon)
	}
	if wait := p.slot("other", noon); wait > 2*time.Second/perSecond {
		t.Errorf("another one waits %s", wait)
	}
}

// TestSlotsAreBounded: those of who does not come go, and where all are taken, one hears when to ask anew.
func TestSlotsAreBounded(t *testing.T) {
	var p pace
	for i := range maxSlots + 2*atOnce {
		p.slot(fmt.Sprint(i), noon)
	}
	if len(p.slots) != maxSlots {
		t.Fatalf("%d slots", len(p.slots))
	}
	full := p.next
	if wait := p.slot("one more", noon); wait != full.Sub(noon) || p.next != full {
		t.Errorf("where all slots are taken it hears %s", wait)
	}
	late := full.Add(slotKept)
	if wait := p.slot("late", late); wait != 0 {
		t.Errorf("when all is quiet again it waits %s", wait)
	}
	if wait := p.slot("1500", late); wait != 0 || len(p.slots) != maxSlots-1 {
		t.Errorf("who missed its slot waits %s; %d slots", wait, len(p.slots))
	}
}
