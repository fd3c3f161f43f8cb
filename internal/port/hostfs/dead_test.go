package hostfs

import (
	"testing"

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
