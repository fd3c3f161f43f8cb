package rank

import (
	"fmt"
	"strconv"

	"berth/internal/scheduler/devices"
)

// Shortage is why an ask has no room, with figures and holders, and what would help.
type Shortage struct{ Reason, Hint string }

const askForLess = "ask for less, stop other jobs there, or add nodes"

// Shortage says in words why Fits refused: how much is asked for and how much is free, or who holds a port.
func (r *Capacity) Shortage(a *Ask, assumeEnded bool) Shortage {
	switch r.Fits(a, assumeEnded) {
	case DimensionCores:
		return r.coreShortage(a)
	case DimensionCPU, DimensionMemory, DimensionDisk:
		cpu, _ := r.computing(a)
		return join(amounts("cpu", "MHz", tooSmall, cpu, r.cpu, r.total[0]),
			amounts("memory", "MiB", tooSmall, a.memory, r.memory, r.total[1]),
			amounts("disk", "MiB", tooFull, a.disk, r.disk, r.total[2]))
	case devices.Dimension:
		free := r.devices
		if free == nil {
			free = devices.NewFree(r.Node)
		}
		reason, hint := free.Shortage(a.devices, assumeEnded)
		return Shortage{reason, hint}
	case noDynamicPort:
		low, high := r.dynamicRange()
		return Shortage{fmt.Sprintf("ports: asks %d dynamic ones, %d of the ports %d to %d are free",
			len(a.dynamic), max(r.dynamicLeft(), 0), low, high),
			"stop other jobs there, or widen min_dynamic_port and max_dynamic_port of the node's agent"}
	}
	for _, p := range a.static {
		if by, hindered := r.inTheWay(r.at(p.HostNetwork, p.Value), a.holder(p), assumeEnded); hindered {
			return Shortage{fmt.Sprintf("port %d (%s) is %s", p.Value, p.Label, by), by.hint()}
		}
	}
	return Shortage{}
}

// String says who has the port.
func (h holder) String() string {
	switch {
	case h.alloc == "":
		return "kept back by the node's configuration"
	case h.placed:
		return "held by another allocation of this job"
	case h.ending:
		return fmt.Sprintf("held by alloc %.8s of job %q, which is being stopped", h.alloc, h.job)
	}
	return fmt.Sprintf("held by alloc %.8s of job %q", h.alloc, h.job)
}

func (h holder) hint() string {
	switch {
	case h.alloc == "":
		return "ask for another port, or take it out of reserved_ports of the node's agent"
	case h.placed:
		return "a static port is there once per node: leave static out, or add nodes"
	case h.ending:
		return "this one is placed as soon as its processes are gone"
	}
	return "ask for another port, leave static out, or stop that job"
}

// join says all that is short at once, and the way out of the worst.
func join(all ...Shortage) (out Shortage) {
	for _, s := range all {
		switch {
		case s.Reason == "":
		case out.Reason == "":
			out = s
		default:
			out.Reason += "; " + s.Reason
			if s.Hint != askForLess && out.Hint == askForLess {
				out.Hint = s.Hint
			}
		}
	}
	return out
}

// Hints where the end of other allocs would not help. Of its disk a node offers what others have left of it, so that
// nobody knows how large it is.
const (
	tooSmall = "the node is too small however empty it is: ask for less, or add a larger one"
	tooFull  = "what else lies on the node's disk leaves no more, whatever is stopped: make room beneath the agent's " +
		"data_dir, ask for less, or add a node with a larger disk"
)

// amounts compares what is asked for with what is free; empty: it is there. never is the hint where the node could not
// hold it without any alloc.
func amounts(what, unit, never string, asked, free, total int64) Shortage {
	if asked <= free {
		return Shortage{}
	}
	s := Shortage{fmt.Sprintf("%s: asks %s %s, %s of %s free", what, grouped(asked), unit, grouped(max(free, 0)),
		grouped(total)), askForLess}
	if asked > total {
		s.Hint = never
	}
	return s
}

// grouped writes a number with commas between its thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
