package driver

import (
	"fmt"

	"berth/internal/base/fault"
)

// Caps bound what jobs may ask for, by the word of the node's operator.
type Caps struct {
	MemoryMaxMB int64 // of memory_max; 0: no cap
	PIDs        int64 // of pids; 0: no cap
}

// MemoryMax is the memory_max that a task gets; one that asks for more than the cap, or for no bound (-1), gets the
// cap. What is reserved for it in any case is not taken from it.
func (c Caps) MemoryMax(memoryMB, memoryMaxMB int64) int64 {
	if c.MemoryMaxMB <= 0 || memoryMaxMB >= 0 && memoryMaxMB <= c.MemoryMaxMB {
		return memoryMaxMB
	}
	return max(c.MemoryMaxMB, memoryMB)
}

// Grant is what a task gets of what it asks for. More processes than the cap are an error of kind Unsupported: a
// program that needs them would fail somewhere in its middle.
func (c Caps) Grant(r Resources) (Resources, error) {
	r.MemoryMaxMB = c.MemoryMax(r.MemoryMB, r.MemoryMaxMB)
	switch {
	case c.PIDs <= 0:
	case r.PIDs > c.PIDs:
		return r, fault.WithHint(
			fault.New(fault.Unsupported, "give", fmt.Sprintf("%d processes and threads (pids)", r.PIDs),
				fmt.Sprintf("the node gives a task at most %d", c.PIDs)),
			"ask for fewer in the task's resources, or have the node's operator raise max_pids in the client block")
	case r.PIDs == 0:
		r.PIDs = min(DefaultPIDs, c.PIDs)
	}
	return r, nil
}
