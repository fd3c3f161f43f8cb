package state

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/base/ids"
	"berth/internal/derive/standing"
	"berth/internal/model/alloc"
)

// counted are how the allocs stand as the table of allocs has it.
func counted(s *Snap) map[standing.Of]standing.Counts {
	out := map[standing.Of]standing.Counts{}
	for a := range s.Allocs(nil, "") {
		one := standing.One(a)
		if was, ok := out[one.Of]; ok {
			one = was.And(one)
		}
		out[one.Of] = one
	}
	return out
}

// kept are the same as the state keeps them.
func kept(s *Snap) map[standing.Of]standing.Counts {
	out := map[standing.Of]standing.Counts{}
	for _, id := range []ids.Job{"a", "ab"} {
		for c := range s.Standings("default", id) {
			out[c.Of] = *c
		}
	}
	return out
}

// TestHowAllocsStandIsCounted writes, changes and removes allocs, with steps that fail: what is kept of how they stand
// is always what counting them says, and after a restore the same.
func TestHowAllocsStandIsCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, index := New(), uint64(0)
		draw := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
		write := func(fn func(tx *Tx) error) {
			index++
			_ = s.Write(Stamp{Index: index}, fn) // some fail on purpose
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				a := &alloc.Alloc{
					ID:            ids.Alloc(draw("id", "1", "2", "3", "4")),
					Namespace:     "default",
					Job:           ids.Job(draw("job", "a", "ab")),
					JobVersion:    uint64(rapid.IntRange(0, 1).Draw(t, "version")),
					TaskGroup:     draw("group", "g", "gg"),
					Deployment:    ids.Deployment(draw("deployment", "", "d")),
					DesiredStatus: draw("desired", alloc.DesiredRun, alloc.DesiredStop),
					ClientStatus:  draw("client", alloc.ClientRunning, alloc.ClientFailed),
					Canary:        rapid.Bool().Draw(t, "canary"),
				}
				if h := draw("health", "open", "good", "bad"); h != "open" {
					a.Health = &alloc.Health{Healthy: h == "good", Index: index + 1}
				}
				fails := rapid.Bool().Draw(t, "fails")
				write(func(tx *Tx) error {
					tx.PutAlloc(a)
					if fails {
						return errors.New("on purpose")
					}
					return nil
				})
			},
			"delete": func(t *rapid.T) {
				id := ids.Alloc(draw("id", "1", "2", "3", "4"))
				write(func(tx *Tx) error { tx.DeleteAlloc(id); return nil })
			},
			"restore": func(t *rapid.T) {
				var saved bytes.Buffer
				if err := s.Snapshot().Persist(&saved); err != nil {
					t.Fatal(err)
				}
				if err := s.Restore(&saved); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				want, got := counted(s.Snapshot()), kept(s.Snapshot())
				for of, c := range got { // a mark never goes back
					if w := want[of]; w.Mark <= c.Mark {
						c.Mark = w.Mark
						got[of] = c
					}
				}
				if fmt.Sprint(want) != fmt.Sprint(got) {
					t.Fatalf("the allocs stand as\n%v\nand are said to stand as\n%v", want, got)
				}
			},
		})
	})
}
