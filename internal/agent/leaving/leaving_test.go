package leaving

import (
	"os"
	"syscall"
	"testing"
)

// TestEachSignalHasItsSetting.
func TestEachSignalHasItsSetting(t *testing.T) {
	for _, c := range []struct {
		on   On
		by   os.Signal
		want bool
	}{
		{On{}, os.Interrupt, false},
		{On{Interrupt: true}, os.Interrupt, true},
		{On{Interrupt: true}, syscall.SIGTERM, false},
		{On{Terminate: true}, syscall.SIGTERM, true},
		{On{Terminate: true}, os.Interrupt, false},
		{On{Interrupt: true, Terminate: true}, nil, false},
	} {
		if got := c.on.By(c.by); got != c.want {
			t.Errorf("%+v by %v: %t", c.on, c.by, got)
		}
	}
}
