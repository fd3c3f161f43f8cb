package entry

import (
	"errors"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
)

// TestWhenABlockStagingIsAbsentAndWhenItMayBeStagedAgain: every combination of what a look can find.
func TestWhenABlockStagingIsAbsentAndWhenItMayBeStagedAgain(t *testing.T) {
	foreign := volume.Holder{PID: 7, Command: "postgres", Namespace: "mnt:[1]", How: "mounted there at /m"}
	inAlloc := foreign
	inAlloc.Alloc = "a"
	holders := map[string][]volume.Holder{
		"nobody":   nil,
		"foreign":  {foreign},
		"an alloc": {foreign, inAlloc},
	}
	for _, device := range []Device{{}, {Device: "7:3", Seq: 9}} {
		e := &Entry{Staging: Staging{Presence: volume.Uncertain, Device: device}}
		for who, list := range holders {
			for bits := range 1 << 3 {
				seen := Sighting{Held: bits&1 > 0, All: bits&2 > 0, Holders: list}
				var failed error
				if bits&4 > 0 {
					failed = errors.New("killed")
				}
				absent := Absent(e, seen, failed)
				if want := device == (Device{}) || failed == nil && !seen.Held; (absent == nil) != want {
					t.Errorf("%+v, held by %s, %+v, %v: absent: %v", device, who, seen, failed, absent)
				}
				again := StageAgain(e, seen, failed)
				want := device == (Device{}) ||
					who != "an alloc" && failed == nil && (!seen.Held || seen.All)
				if (again == nil) != want {
					t.Errorf("%+v, held by %s, %+v, %v: staged again: %v", device, who, seen, failed, again)
				}
				if again != nil && !fault.Has(again, fault.NotReady) {
					t.Errorf("it is not waited for: %v", again)
				}
			}
		}
	}
}

// TestAnotherBootHasOtherDevices: their numbers are given again, and no mount outlives a boot.
func TestAnotherBootHasOtherDevices(t *testing.T) {
	e := &Entry{Boot: "1", Staging: Staging{Presence: volume.Uncertain, Device: Device{Device: "7:3", Seq: 9}}}
	if e.WakeOnBoot("1"); e.Staging.Device == (Device{}) {
		t.Error("forgotten in the same boot")
	}
	if e.WakeOnBoot("2"); e.Staging.Device != (Device{}) {
		t.Error("taken for that of this boot")
	}
}
