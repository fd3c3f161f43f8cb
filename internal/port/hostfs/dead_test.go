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
