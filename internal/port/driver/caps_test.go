package driver

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// Given what tasks ask for, and caps of a node or none, then memory_max is what the cap leaves of it and never less
// than is reserved, and more processes than the cap are refused with both numbers and a way out.
func TestWhatATaskGetsOfWhatItAsksFor(t *testing.T) {
	caps := Caps{MemoryMaxMB: 1000, PIDs: 500}
	type numbers struct{ memory, memoryMax, pids int64 }
	for name, c := range map[string]struct {
		caps       Caps
		asks, gets numbers
	}{
		"no caps, no bound":         {Caps{}, numbers{10, -1, 0}, numbers{10, -1, 0}},
		"no caps, many":             {Caps{}, numbers{10, 1 << 20, 1 << 20}, numbers{10, 1 << 20, 1 << 20}},
		"nothing":                   {caps, numbers{10, 0, 0}, numbers{10, 0, 500}},
		"nothing, of a higher cap":  {Caps{PIDs: 9999}, numbers{10, 0, 0}, numbers{10, 0, DefaultPIDs}},
		"within":                    {caps, numbers{10, 1000, 500}, numbers{10, 1000, 500}},
		"no bound":                  {caps, numbers{10, -1, 1}, numbers{10, 1000, 1}},
		"more":                      {caps, numbers{10, 1001, 1}, numbers{10, 1000, 1}},
		"more than is reserved":     {caps, numbers{2000, 3000, 1}, numbers{2000, 2000, 1}},
		"what is reserved is more":  {caps, numbers{2000, 0, 1}, numbers{2000, 0, 1}},
		"no bound of what is above": {caps, numbers{2000, -1, 1}, numbers{2000, 2000, 1}},
	} {
		got, err := c.caps.Grant(Resources{MemoryMB: c.asks.memory, MemoryMaxMB: c.asks.memoryMax, PIDs: c.asks.pids})
		if gets := (numbers{got.MemoryMB, got.MemoryMaxMB, got.PIDs}); err != nil || gets != c.gets {
			t.Errorf("%s: it gets %+v, %v, want %+v", name, gets, err, c.gets)
		}
	}
	_, err := caps.Grant(Resources{PIDs: 501})
	if !fault.Has(err, fault.Unsupported) {
		t.Fatalf("too many processes: %v", err)
	}
	for _, want := range []string{"501", "at most 500", "max_pids"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
