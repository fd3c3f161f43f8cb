package node

import (
	"slices"
	"testing"
	"time"
)

// TestAdmitForEveryCombination holds the law of the chain over all that it looks at.
func TestAdmitForEveryCombination(t *testing.T) {
	for bits := range 1 << 11 {
		is := func(bit int) bool { return bits&(1<<bit) > 0 }
		s := &Session{
			Epoch:      "stored",
			Machine:    Machine{Boot: "one"},
			Superseded: []string{"older"},
			Left:       is(0),
			Open:       is(1),
		}
		r := Registration{Next: "new", Machine: Machine{Boot: "one"}, InProcess: is(2)}
		f := SessionFacts{Lost: is(3), Silent: is(4), Readmitted: is(10)}
		if is(5) {
			r.Machine.Boot = "two"
		}
		if is(9) {
			r.Previous = []string{"an earlier one"}
		}
		if is(6) {
			r.Previous = append(r.Previous, "stored")
		}
		if is(7) {
			r.Next = "stored"
		}
		if is(8) {
			r.Next = "older"
		}
		got := Admit(s, r, f)
		sameBoot := !is(5)
		storeLost := !is(6) && !is(9) && r.InProcess && sameBoot
		follows := is(6) || f.Lost || storeLost || f.Readmitted
		switch {
		case r.Next == "stored" && sameBoot:
			check(t, bits, got, AdmitRepeats)
		case r.Next == "older":
			check(t, bits, got, AdmitSuperseded)
		case s.Open:
			check(t, bits, got, AdmitFollows)
		case !follows:
			check(t, bits, got, AdmitCopy)
		case sameBoot || r.InProcess || s.Left || f.Silent:
			check(t, bits, got, AdmitFollows)
		default:
			check(t, bits, got, AdmitWaits)
		}
	}
	if got := Admit(nil, Registration{Next: "new"}, SessionFacts{}); got != AdmitBegins {
		t.Errorf("without a stored session it %s", got)
	}
}

func check(t *testing.T, bits int, got, want Admission) {
	t.Helper()
	if got != want {
		t.Errorf("case %011b: it %s, want it %s", bits, got, want)
	}
}

// TestWhatProvesThatABootHasEnded: a machine runs one boot at a time, so it must be known that it is the same machine.
func TestWhatProvesThatABootHasEnded(t *testing.T) {
	known, old := Machine{Boot: "two", Product: "p", ID: "m"}, Machine{Boot: "one", Product: "p", ID: "m"}
	with := func(m Machine, fn func(*Machine)) Machine { fn(&m); return m }
	for name, c := range map[string]struct {
		before, now   Machine
		remote, local bool // whether it is proven from afar, and in the server's process
	}{
		"the same boot":    {old, with(known, func(m *Machine) { *m = Machine{Boot: "one"} }), true, true},
		"the same machine": {old, known, true, true},
		"another product":  {old, with(known, func(m *Machine) { m.Product = "q" }), false, false},
		"another id":       {old, with(known, func(m *Machine) { m.ID = "n" }), false, false},
		"no product now":   {old, with(known, func(m *Machine) { m.Product = "" }), false, true},
		"no id now":        {old, with(known, func(m *Machine) { m.ID = "" }), false, true},
		"no id before":     {with(old, func(m *Machine) { m.ID = "" }), known, false, true},
		"nothing is known": {Machine{Boot: "one"}, Machine{Boot: "two"}, false, true},
	} {
		if got := c.before.over(Registration{Machine: c.now}); got != c.remote {
			t.Errorf("%s: from afar it is proven: %t", name, got)
		}
		if got := c.before.over(Registration{Machine: c.now, InProcess: true}); got != c.local {
			t.Errorf("%s: in the process it is proven: %t", name, got)
		}
	}
}

// TestAnUnprovenBootStaysInDoubtUntilAPersonSpeaks follows a node over three machines.
func TestAnUnprovenBootStaysInDoubtUntilAPersonSpeaks(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	start := func(epoch, machine string) Registration {
		return Registration{Next: epoch, Machine: Machine{Boot: "boot of " + epoch, Product: machine, ID: machine}}
	}
	var s *Session
	s = s.Follow(start("a", "m1"), 10, now)
	s = s.Follow(start("b", "m1"), 20, now)
	if s.Doubt(1) != "" {
		t.Errorf("a reboot is in doubt: %s", s.Doubt(1))
	}
	s = s.Follow(start("c", "m2"), 30, now)
	if s.Doubt(30) == "" || s.Doubt(31) != "" {
		t.Errorf("claims up to 30 are in doubt: %q, later ones are not: %q", s.Doubt(30), s.Doubt(31))
	}
	s = s.Follow(start("d", "m2"), 40, now) // a reboot of the second machine says nothing about the first
	if s.Doubt(30) == "" || s.Doubt(31) != "" || !slices.Equal(s.Superseded, []string{"a", "b", "c"}) {
		t.Errorf("after a reboot: %q, %q, superseded %v", s.Doubt(30), s.Doubt(31), s.Superseded)
	}
	s.Duplicated = &Duplicate{Epoch: "b"}
	if s.Doubt(1000) == "" {
		t.Error("of a duplicated node nothing is certain")
	}
	s = s.Confirm(Confirmation{Reason: "it burned"}, true)
	if s.Doubt(1) != "" || !s.Open || len(s.Confirmed) != 1 {
		t.Errorf("after a person's word: %q, %+v", s.Doubt(1), s)
	}
	if s = s.Follow(start("e", "m3"), 50, now); s.Open || s.Doubt(1) != "" {
		t.Errorf("the word is used once, and for this: %+v", s)
	}
	s.Left = true
	if s = s.Follow(start("f", "m4"), 60, now); s.Doubt(1) != "" || s.Left {
		t.Errorf("an agent that left with nothing is in doubt: %+v", s)
	}
	for i := range 40 {
		s = s.Follow(start(string(rune('g'+i)), "m4"), 70, now)
	}
	if len(s.Superseded) != keptEpochs {
		t.Errorf("%d epochs are kept", len(s.Superseded))
	}
}

// TestAReadmissionIsOfOneTokenAndEnds: nothing but the very token readmits, in its time, and not beyond the session.
func TestAReadmissionIsOfOneTokenAndEnds(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &Session{Epoch: "a", Readmission: &Readmission{TokenHash: "h", Expires: now.Add(time.Hour)}}
	for name, c := range map[string]struct {
		s    *Session
		hash string
		at   time.Time
		want bool
	}{
		"in time":              {s, "h", now.Add(time.Hour - 1), true},
		"too late":             {s, "h", now.Add(time.Hour), false},
		"another token":        {s, "i", now, false},
		"no token":             {s, "", now, false},
		"no permission":        {&Session{Epoch: "a"}, "h", now, false},
		"no token and no hash": {&Session{Readmission: &Readmission{Expires: now.Add(1)}}, "", now, false},
		"no session":           {nil, "h", now, false},
		"the session after":    {s.Follow(Registration{Next: "b"}, 1, now), "h", now, false},
	} {
		if got := c.s.Readmits(c.hash, c.at); got != c.want {
			t.Errorf("%s: it readmits: %t", name, got)
		}
	}
}
