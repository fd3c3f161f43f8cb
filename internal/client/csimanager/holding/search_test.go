package holding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
)

// scripted finds what it is scripted to.
type scripted struct {
	seen  entry.Sighting
	err   error
	looks []entry.Device
}

func (s *scripted) Free(_ context.Context, _ entry.Device) (entry.Sighting, error) {
	return entry.Sighting{Held: s.seen.Held}, s.err
}

func (s *scripted) Look(_ context.Context, d entry.Device, _ ...string) (entry.Sighting, error) {
	s.looks = append(s.looks, d)
	return s.seen, s.err
}

func stuck() (*entry.Entry, volume.StagingKey) {
	key := volume.StagingKey{Plugin: "p", ExternalID: "v"}
	return &entry.Entry{
		Key: key,
		Staging: entry.Staging{
			Presence: volume.Uncertain,
			HostPath: "/nowhere/s/v",
			Device:   entry.Device{Device: "7:3", Seq: 9},
		},
		Pubs: map[ids.Alloc]*entry.Publication{
			"a": {Presence: volume.Uncertain, HostPath: "/nowhere/p/a/m"},
		},
	}, key
}

var postgres = volume.Holder{
	PID:       123,
	Command:   "postgres",
	Namespace: "mnt:[4026532]",
	How:       "a file is open",
}

// TestHoldersAreLookedForOnceForEachReasonAndThenLessOften: never at the first failure, and never for each try.
func TestHoldersAreLookedForOnceForEachReasonAndThenLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, key := stuck()
		looks := &scripted{seen: entry.Sighting{Held: true, Holders: []volume.Holder{postgres}, All: true}}
		s := NewSearch(looks, slog.New(slog.DiscardHandler))
		unstage := entry.Step{Verb: entry.Unstage}
		fails := func(before int, why string, want int) {
			t.Helper()
			err := s.HeldBy(t.Context(), e, unstage, before, errors.New(why))
			if len(looks.looks) != want {
				t.Errorf("after %d failures, the last because it is %s: looked %d times, want %d", before, why,
					len(looks.looks), want)
			}
			const held = "; held by pid 123 (postgres) in mount namespace mnt:[4026532], a file is open"
			if want > 0 && err.Error() != why+held {
				t.Errorf("it says %q", err)
			}
			if pinned := s.Pinned(key) != ""; pinned != (want > 0) {
				t.Errorf("after %d failures: pinned %v", before, pinned)
			}
		}
		fails(0, "busy", 0)
		fails(1, "busy", 1)
		fails(2, "busy", 1)
		fails(3, "open", 2)
		fails(4, "open", 2)
		time.Sleep(lookPause.Min)
		fails(5, "open", 3)
		time.Sleep(lookPause.Min)
		fails(6, "open", 3)
		time.Sleep(lookPause.Max)
		fails(7, "open", 4)
		if err := s.HeldBy(t.Context(), e, entry.Step{Verb: entry.Stage}, 5, errors.New("x")); err.Error() != "x" {
			t.Errorf("of a making step it says %q", err)
		}
		s.Forget(key)
		if h := s.Holders(key); len(h) > 0 {
			t.Errorf("kept %v", h)
		}
		unpublish := entry.Step{Verb: entry.Unpublish, Alloc: "a"}
		looks.err = errors.New("killed")
		err := s.HeldBy(t.Context(), e, unpublish, 1, errors.New("busy"))
		if last := looks.looks[len(looks.looks)-1]; last != (entry.Device{}) {
			t.Errorf("for a publication those of the staging's device %v are named", last)
		}
		if !strings.Contains(err.Error(), "pid 123") {
			t.Errorf("what was found before the look failed is dropped: %v", err)
		}
	})
}

// TestADeviceThatIsHeldIsPinned: as long as an exclusive opening fails, or it is not known whether it would.
func TestADeviceThatIsHeldIsPinned(t *testing.T) {
	e, key := stuck()
	looks := &scripted{}
	s := NewSearch(looks, slog.New(slog.DiscardHandler))
	looks.seen.Held = true
	if err := s.Absent(t.Context(), e); err == nil || s.Pinned(key) == "" {
		t.Errorf("held: %v, %q", err, s.Pinned(key))
	}
	looks.seen.Held = false
	looks.err = errors.New("killed")
	if err := s.Absent(t.Context(), e); err == nil || s.Pinned(key) == "" {
		t.Errorf("not known: %v, %q", err, s.Pinned(key))
	}
	looks.err = nil
	if err := s.Absent(t.Context(), e); err != nil || s.Pinned(key) != "" {
		t.Errorf("free: %v, %q", err, s.Pinned(key))
	}
	looks.seen = entry.Sighting{Held: true, All: true, Holders: []volume.Holder{postgres}}
	if err := s.StageAgain(t.Context(), e); err != nil {
		t.Errorf("a foreign holder keeps the same node from staging it again: %v", err)
	}
	looks.seen.Holders[0].Alloc = "b"
	if err := s.StageAgain(t.Context(), e); err == nil {
		t.Error("staged again beside an alloc that holds it")
	}
	e.Staging.Device = entry.Device{}
	if err := errors.Join(s.StageAgain(t.Context(), e), s.Absent(t.Context(), e)); err != nil {
		t.Errorf("what has no device of its own is pinned: %v", err)
	}
}

// TestAnAllocAmongManyHoldersIsKept: however many others hold a device, an alloc that does is known, and nothing is
// staged beside it.
func TestAnAllocAmongManyHoldersIsKept(t *testing.T) {
	f := &Finder{Alloc: func(cgroup string) ids.Alloc { return ids.Alloc(cgroup) }}
	var seen entry.Sighting
	for i := range 2 * most {
		group := ""
		if i == 2*most-1 {
			group = "a"
		}
		line := fmt.Sprintf("holder %d %q %q %q %q", i+1, "sleep", "", group, "a file is open")
		if err := f.read(&seen, line); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen.Holders) != most+1 || seen.Holders[most].Alloc != "a" {
		t.Fatalf("kept are %+v", seen.Holders)
	}
	e, _ := stuck()
	seen.Held, seen.All = true, true
	if err := entry.StageAgain(e, seen, nil); err == nil {
		t.Error("staged beside an alloc that uses it")
	}
}
