package variable

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func index(n uint64) *uint64 { return &n }

// Given what is at a path, when somebody writes, then it is written if that is what the writer took it for, and nobody
// else holds its lock.
func TestAWriteMeetsWhatIsThere(t *testing.T) {
	free := &Variable{Path: "a", ModifyIndex: 7}
	held := &Variable{Path: "a", ModifyIndex: 7, Lock: &Lock{ID: "mine"}}
	for name, c := range map[string]struct {
		now  *Variable
		w    Write
		want string
	}{
		"new":                       {nil, Write{}, ""},
		"new, and seen to be":       {nil, Write{Check: index(0)}, ""},
		"gone":                      {nil, Write{Check: index(7)}, "written at index 0, not 7"},
		"gone, by a lock":           {nil, Write{Lock: "mine"}, "not locked by the id"},
		"over what is there":        {free, Write{}, ""},
		"over what was seen":        {free, Write{Check: index(7)}, ""},
		"over what was thought new": {free, Write{Check: index(0)}, "there already, written at index 7"},
		"over what was older":       {free, Write{Check: index(6)}, "written at index 7, not 6"},
		"by a lock that was lost":   {free, Write{Lock: "mine"}, "not locked by the id"},
		"without the lock":          {held, Write{}, "it is locked"},
		"seen, without the lock":    {held, Write{Check: index(7)}, "it is locked"},
		"by another lock":           {held, Write{Lock: "other"}, "not locked by the id"},
		"by the lock":               {held, Write{Lock: "mine"}, ""},
		"by the lock, over another": {held, Write{Lock: "mine", Check: index(3)}, "not 3"},
	} {
		got := string(c.w.Allowed(c.now))
		if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Given a lock that was released, or lost, when another one is asked for, then that waits for the delay after a loss
// alone; its holder may take it again, and who lost it not.
func TestALostLockRestsForItsDelay(t *testing.T) {
	now := time.Unix(1000, 0)
	held := &Variable{Lock: &Lock{ID: "mine", TTL: 10 * time.Second, Delay: 15 * time.Second}}
	released, lost := held.Released(false, now), held.Released(true, now)
	for name, c := range map[string]struct {
		v     *Variable
		again string
		at    time.Time
		want  string
	}{
		"nothing there":          {nil, "", now, ""},
		"nothing there, again":   {nil, "mine", now, string(NotHeld)},
		"held":                   {held, "", now, "somebody else holds"},
		"held, by its holder":    {held, "mine", now, ""},
		"held, by another":       {held, "other", now, string(NotHeld)},
		"released":               {released, "", now, ""},
		"released, again":        {released, "mine", now, string(NotHeld)},
		"lost":                   {lost, "", now, "in 15s"},
		"lost, soon over":        {lost, "", now.Add(14 * time.Second), "in 1s"},
		"lost, over":             {lost, "", now.Add(15 * time.Second), ""},
		"lost, by who lost it":   {lost, "mine", now.Add(15 * time.Second), string(NotHeld)},
		"lost, after its clock":  {lost, "", now.Add(time.Hour), ""},
		"released after a while": {released, "", now.Add(time.Hour), ""},
	} {
		got := string(Acquirable(c.v, c.again, c.at))
		if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Of any order of what several do with one variable, at most one holds its lock at a time, nobody writes under the lock
// of another, and a write that names an index is made on that one alone.
func TestNoTwoHoldALock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v *Variable
		at, index := time.Unix(0, 0), uint64(1)
		holder, freeAt := "", time.Time{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			who := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "who")
			at = at.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "pause")) * time.Second)
			index++
			switch rapid.IntRange(0, 3).Draw(t, "does") {
			case 0: // acquires
				if c := Acquirable(v, "", at); c != "" {
					break
				}
				if holder != "" || at.Before(freeAt) {
					t.Fatalf("%s acquired at %v what %q holds, or what rests until %v", who, at, holder, freeAt)
				}
				v = &Variable{Lock: &Lock{ID: who, Delay: 12 * time.Second}, ModifyIndex: index}
				holder = who
			case 1, 2: // gives back, or loses
				if !v.Holds(who) {
					break
				}
				lost := rapid.Bool().Draw(t, "lost")
				v = v.Released(lost, at)
				holder, freeAt = "", time.Time{}
				if lost {
					freeAt = at.Add(12 * time.Second)
				}
			case 3: // writes
				seen := uint64(rapid.IntRange(0, int(index)).Draw(t, "seen"))
				by := rapid.SampledFrom([]string{"", who}).Draw(t, "by")
				if (Write{Check: &seen, Lock: by}).Allowed(v) != "" {
					break
				}
				if by != holder || v == nil && seen != 0 || v != nil && v.ModifyIndex != seen {
					t.Fatalf("%s wrote by %q over index %d: %+v, held by %q", who, by, seen, v, holder)
				}
				next := Variable{ModifyIndex: index}
				if v != nil {
					next = *v
					next.ModifyIndex = index
				}
				v = &next
			}
		}
	})
}
