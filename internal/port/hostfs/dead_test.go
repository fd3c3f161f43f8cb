package hostfs

import (
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
)

// TestAFileSystemThatHasGivenUpSaysSo: by an option that is nobody's wish; what it does on errors is one.
func TestAFileSystemThatHasGivenUpSaysSo(t *testing.T) {
	for options, want := range map[string]string{
		"rw":                     "",
		"rw,errors=remount-ro":   "",
		"rw,emergency_ro,quota":  "emergency_ro",
		"rw,discard,shutdown":    "shutdown",
		"rw,lowerdir=/shutdown":  "",
		"ro,errors=emergency_ro": "",
	} {
		table := tableOf([]*mountinfo.Info{{Mountpoint: "/m", Options: "rw", VFSOptions: options}})
		if m, _ := table.At("/m"); m.Dead != want {
			t.Errorf("%q: %q, not %q", options, m.Dead, want)
		}
	}
}

// A reading that is made anew is no earlier one: nothing tells that a file system became read-only by itself.
func TestATableReadAnewIsAnother(t *testing.T) {
	first, err := ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	anew, err := ReadTableAnew()
	if err != nil {
		t.Fatal(err)
	}
	if anew == first {
		t.Error("the table that was kept is handed out")
	}
}

// A reading is shared with whoever asks within its age, and with nobody after it, nor after a mount.
func TestATableIsSharedWithinItsAge(t *testing.T) {
	first, err := ReadTableAnew()
	if err != nil {
		t.Fatal(err)
	}
	for age, shared := range map[time.Duration]bool{time.Hour: true, time.Nanosecond: false} {
		got, err := ReadTableWithin(age)
		if err != nil {
			t.Fatal(err)
		}
		if (got == first) != shared {
			t.Errorf("within %v: the same table is handed out: %v", age, got == first)
		}
		if first, err = ReadTableAnew(); err != nil {
			t.Fatal(err)
		}
	}
}
