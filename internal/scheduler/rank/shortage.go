package rank

import (
	"fmt"
	"strconv"
)

// Shortage is why an ask has no room, with figures and holders, and what would help.
type Shortage struct{ Reason, Hint string }

const askForLess = "ask for less, stop other jobs there, or add nodes"

// Shortage says in words why Fits refused: how much is asked for and how much is free, or who holds a port.
func (r *Capacity) Shortage(a *Ask, assumeEnded bool) Shortage {
	switch r.Fits(a, assumeEnded) {
	case DimensionCPU, DimensionMemory, DimensionDisk:
		return join(amounts("cpu", "MHz", a.cpu, r.cpu, r.total[0]),
			amounts("memory", "MiB", a.memory, r.memory, r.total[1]),
			amounts("disk", "MiB", a.disk, r.disk, r.total[2]))
	case noDynamicPort:
		low, high := r.dynamicRange()
		return Shortage{fmt.Sprintf("ports: asks %d dynamic ones, %d of the ports %d to %d are free",
			len(a.dynamic), max(r.dynamicLeft(), 0), low, high),
			"stop other jobs there, or widen min_dynamic_port and max_dynamic_port of the node's agent"}
	}
	for _, p := range a.static {
		by, held := r.holderOf(r.at(p.HostNetwork, p.Value))
		if held && !(assumeEnded && by.ending) {
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
	case h.job == "":
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
	case h.job == "":
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
			if s.Hint == tooSmall {
				out.Hint = s.Hint
			}
		}
	}
	return out
}

const tooSmall = "the node is too small however empty it is: ask for less, or add a larger one"

// amounts compares what is asked for with what is free; empty: it is there. A node that could never hold it says so.
func amounts(what, unit string, asked, free, total int64) Shortage {
	if asked <= free {
		return Shortage{}
	}
	s := Shortage{fmt.Sprintf("%s: asks %s %s, %s of %s free", what, grouped(asked), unit, grouped(max(free, 0)),
		grouped(total)), askForLess}
	if asked > total {
		s.Hint = tooSmall
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
