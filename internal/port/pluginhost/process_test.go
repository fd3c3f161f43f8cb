package pluginhost

import (
	"os"
	"testing"

	"berth/internal/base/procs"
	"berth/internal/port/hostfs"
)

// Given what is written down of a plugin, then it is of the process of that number alone that began then, in the same
// run of the machine: numbers are given again.
func TestARecordIsOfTheProcessThatItNames(t *testing.T) {
	boot, err := hostfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	start, err := procs.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		r    record
		want bool
	}{
		"it lives":                      {record{PID: os.Getpid(), Start: start, Boot: boot}, true},
		"another one has its number":    {record{PID: os.Getpid(), Start: start - 1, Boot: boot}, false},
		"the machine was started since": {record{PID: os.Getpid(), Start: start, Boot: "another"}, false},
		"its boot is not known":         {record{PID: os.Getpid(), Start: start}, false},
		"it has no number":              {record{Start: start, Boot: boot}, false},
		"nobody has its number":         {record{PID: 1 << 22, Start: start, Boot: boot}, false}, // beyond all of the kernel's
	} {
		if got := c.r.lives(); got != c.want {
			t.Errorf("%s: it lives: %v", name, got)
		}
	}
}
