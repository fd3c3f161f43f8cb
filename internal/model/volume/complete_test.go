package volume

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"

	"berth/internal/base/ids"
)

// For every combination of two nodes' claims, attachments and inventories the steps are exactly those that the law
// names, each once, and what is waited for is said when nothing else is.
func TestNextAttachmentsAreAllThatTheLawNames(t *testing.T) {
	nodes := []ids.Node{"n1", "n2"}
	attachWorlds(func(f AttachFacts) {
		attached := map[ids.Node]*Attachment{}
		held, wanted := map[ids.Node]bool{}, map[ids.Node]bool{}
		for _, a := range f.Attachments {
			attached[a.Node] = a
		}
		for _, c := range f.Claims {
			held[c.Node] = c.State == Held
			wanted[c.Node] = c.State == Held || c.State == Releasing
		}
		exists := func(n ids.Node) bool { return attached[n] != nil && attached[n].Presence != Absent }
		var want []AttachStep
		blocked := false
		for i, n := range nodes {
			a, other := attached[n], nodes[1-i]
			wanted := wanted[n] || f.OnNode[n]
			leaves := exists(n) && a.Detaching
			switch {
			case exists(n) && (a.Detaching || !wanted):
				want = append(want, AttachStep{Detach, n})
			case a != nil && !exists(n) && !wanted:
				want = append(want, AttachStep{Forget, n})
			}
			if f.NeedsAttach && held[n] && !leaves && !(exists(n) && a.Presence == Present) {
				if f.SingleNode && exists(other) {
					blocked = true
				} else {
					want = append(want, AttachStep{Attach, n})
				}
			}
		}
		unknown := !f.Known && len(f.Attachments) == 0
		if unknown {
			want, blocked = nil, true
		}
		steps, wait := NextAttachments(f)
		order := func(a, b AttachStep) int {
			return cmp.Or(cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Node, b.Node))
		}
		got := slices.SortedFunc(slices.Values(steps), order)
		slices.SortFunc(want, order)
		if !slices.Equal(got, want) || (wait != "") != blocked {
			t.Fatalf("%+v: steps %+v, want %+v; waits %q", f, got, want, wait)
		}
		// What undoes comes first: it may be what something else waits for.
		if i := slices.IndexFunc(steps, func(s AttachStep) bool { return s.Verb == Attach }); i >= 0 &&
			slices.ContainsFunc(steps[i:], func(s AttachStep) bool { return s.Verb != Attach }) {
			t.Fatalf("%+v: an attach comes before what undoes: %+v", f, steps)
		}
	})
}

// A claim that is held is released when the processes of its alloc are gone, and by nothing else.
func TestAHeldClaimIsReleasedByTheEndOfItsProcessesAlone(t *testing.T) {
	c := &Claim{Alloc: "a", State: Held}
	for bits := range 16 {
		f := ClaimFacts{
			ProcessesGone: bits&1 > 0,
			Inventoried:   bits&2 > 0,
			OthersOnNode:  bits&4 > 0,
		}
		if bits&8 > 0 {
			f.Entry = &InventoryEntry{Staging: Present}
		}
		want := ClaimStays
		if f.ProcessesGone {
			want = ClaimReleases
		}
		if got := NextClaim(c, f); got != want {
			t.Errorf("%+v: %s, want %s", f, got, want)
		}
	}
	if got := NextClaim(&Claim{State: Queued}, ClaimFacts{ProcessesGone: true, Inventoried: true}); got != ClaimStays {
		t.Errorf("a queued claim: %s", got)
	}
}

// A claim says whether it writes, which thing of the provider's it is about, and by which epochs its node may know it.
func TestWhatAClaimSaysOfItself(t *testing.T) {
	for _, c := range []struct {
		claim Claim
		reads bool
	}{
		{Claim{AccessMode: SingleNodeWriter}, false},
		{Claim{AccessMode: SingleNodeWriter, ReadOnly: true}, true},
		{Claim{AccessMode: MultiNodeReader}, true},
	} {
		if c.claim.Reads() != c.reads {
			t.Errorf("%+v reads: %v", c.claim, c.claim.Reads())
		}
	}
	var c Claim
	c.Identify(&Volume{UID: "u", Spec: Spec{Plugin: "p"}, Status: Status{ExternalID: "x"}})
	if c.UID != "u" || c.Staging() != (StagingKey{Plugin: "p", ExternalID: "x"}) {
		t.Errorf("it is of %q, %+v", c.UID, c.Staging())
	}
	before := Epoch{Incarnation: "old", Index: 1}
	c.Epoch = Epoch{Incarnation: "new", Index: 2}
	if got := c.Epochs(); !slices.Equal(got, []Epoch{c.Epoch}) {
		t.Errorf("its epochs are %v", got)
	}
	c.Before = &before
	if got := c.Epochs(); !slices.Equal(got, []Epoch{c.Epoch, before}) {
		t.Errorf("adopted, its epochs are %v", got)
	}
}

// An entry of an inventory is quiet when neither its staging nor any publication may be there.
func TestAnEntryIsQuietWhenNothingMayBeThere(t *testing.T) {
	for _, p := range []Presence{Absent, Uncertain, Present, Lost} {
		quiet := p == Absent
		for _, e := range []InventoryEntry{
			{Staging: p},
			{Staging: p, Publications: []InventoryPublication{{Presence: Absent, Wanted: true}}},
			{Publications: []InventoryPublication{{Presence: Absent}, {Presence: p}}},
		} {
			if e.Quiet() != quiet {
				t.Errorf("%+v is quiet: %v", e, e.Quiet())
			}
		}
	}
}

// Given an expansion, when it is begun, has ended or is settled, then all of its record follows: what a call asks for,
// how often it was tried and why it failed are of one expansion.
func TestTheRecordOfAnExpansion(t *testing.T) {
	now, since := time.Unix(1000, 0), time.Unix(10, 0).UTC()
	trouble := func(s Status) Status {
		s.Tries, s.NextTry = 3, time.Unix(99, 0)
		s.LastError, s.Since = "no", since
		return s
	}
	begun := func(capacity, wanted int64, since time.Time) Status {
		return Status{
			Phase:         PhaseExpanding,
			Capacity:      capacity,
			WantedMin:     wanted,
			WantedMax:     9000,
			Generation:    5,
			ExpandSettled: true,
			Since:         since,
		}
	}
	over := func(capacity int64) Status {
		return Status{Phase: PhaseReady, Capacity: capacity, Generation: 4, Since: since}
	}
	ready := trouble(Status{Phase: PhaseReady, Capacity: 1000, Generation: 4})
	growing := trouble(Status{
		Phase:      PhaseExpanding,
		Capacity:   1000,
		WantedMin:  2000,
		WantedMax:  9000,
		Generation: 4,
	})
	settled := growing
	settled.ExpandSettled = true
	expand := func(v *Volume) { v.Expand(now) }
	settle := func(v *Volume) { v.SettleExpansion(now) }
	grown := func(bytes int64) func(v *Volume) { return func(v *Volume) { v.Expanded(bytes, now) } }
	for name, c := range map[string]struct {
		status Status
		min    int64
		do     func(v *Volume)
		want   Status
	}{
		"begun":                          {ready, 2000, expand, begun(1000, 2000, now.UTC())},
		"begun anew":                     {growing, 3000, expand, begun(1000, 3000, since)},
		"asked for what it has":          {growing, 1000, expand, over(1000)},
		"done":                           {growing, 2000, grown(2500), over(2500)},
		"done, without saying how large": {growing, 2000, grown(0), over(2000)},
		"done, and more was asked for":   {growing, 5000, grown(2500), begun(2500, 5000, since)},
		"settled":                        {growing, 2000, settle, settled},
		"settled, and another size was asked for": {growing, 5000, settle, begun(1000, 5000, since)},
	} {
		v := &Volume{Spec: Spec{CapacityMin: c.min, CapacityMax: 9000}, Status: c.status}
		if c.do(v); !reflect.DeepEqual(v.Status, c.want) {
			t.Errorf("%s: it is\n%+v, want\n%+v", name, v.Status, c.want)
		}
	}
	other := &Volume{Spec: Spec{CapacityMin: 2000, CapacityMax: 8000}, Status: growing}
	if other.SettleExpansion(now); other.Status.WantedMax != 8000 || other.Status.Generation != 5 {
		t.Errorf("with another limit it is %+v", other.Status)
	}
}

// Who holds a device is named with all that is known, and of many the first alone.
func TestHoldersAreNamed(t *testing.T) {
	shell := Holder{PID: 7, Command: "sh", How: "its directory"}
	for want, h := range map[string]Holder{
		"pid 7 (sh), its directory": shell,
		"a mount on the node":       {How: "a mount", Command: "none"},
		"pid 7 (sh) of allocation 01234567 in mount namespace mnt:[1], a file": {
			PID:       7,
			Command:   "sh",
			Alloc:     "01234567-0000",
			Namespace: "mnt:[1]",
			How:       "a file",
		},
	} {
		if got := h.String(); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
	all := []Holder{shell, shell, shell, shell, shell}
	one := shell.String()
	for n, want := range map[int]string{
		0: "",
		1: "held by " + one,
		3: "held by " + one + "; " + one + "; " + one,
		5: "held by " + one + "; " + one + "; " + one + "; and 2 more",
	} {
		if got := HeldBy(all[:n]); got != want {
			t.Errorf("of %d: %q", n, got)
		}
	}
}

// What was observed is the same whenever it was, and nothing is not the same as something.
func TestWhatWasObservedIsComparedWithoutItsTime(t *testing.T) {
	a, b := &Observed{Missing: true, Since: time.Unix(1, 0)}, &Observed{Missing: true, Since: time.Unix(2, 0)}
	var none *Observed
	for _, c := range []struct {
		x, y *Observed
		same bool
	}{
		{a, b, true},
		{a, &Observed{Since: a.Since}, false},
		{none, none, true},
		{none, a, false},
		{a, none, false},
	} {
		if c.x.Same(c.y) != c.same {
			t.Errorf("%+v and %+v are the same: %v", c.x, c.y, !c.same)
		}
	}
	if o := Observe(nil, &Listed{Message: "well"}); o != nil {
		t.Errorf("of one that is well it is observed: %+v", o)
	}
	o := Observe(nil, &Listed{Message: "well", Nodes: []string{"x"}, NodesKnown: true})
	if o == nil || o.Message != "" {
		t.Errorf("of one that is attached elsewhere it is observed: %+v", o)
	}
}
