package seccomp

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// condition allows a call if one of the matches holds, or refuses it if one does and allows it otherwise.
type condition struct {
	name    string
	matches []match
	refuses bool
}

// match holds when all arguments are as they say.
type match []argument

// argument compares bits of the lower half of an argument. All calls with conditions have arguments of which the kernel
// looks at the lower half only.
type argument struct {
	index, mask, value uint32
}

// whole is the mask of a comparison of all bits.
const whole = ^uint32(0)

// Places in the record of a call that a filter reads (struct seccomp_data), on a little-endian machine.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
	wordSize     = 4
)

// precondition is the part of the filter that looks at arguments, before the part that knows numbers alone, for which
// it leaves the number loaded. Each call with a condition is decided here, whatever its arguments, and each of another
// architecture's form.
func precondition(m *machine, of []condition, additional func(name string) bool) []bpf.Instruction {
	number := bpf.LoadAbsolute{Off: offsetNumber, Size: wordSize}
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: wordSize},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: m.audit, SkipTrue: 1},
		bpf.RetConstant{Val: refusal(unix.ENOSYS)},
		number,
	}
	for _, c := range of {
		call, known := m.numbers[c.name]
		if known && !additional(c.name) {
			decision := c.decide()
			out = append(out,
				bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(call), SkipTrue: uint8(len(decision))})
			out = append(out, decision...)
		}
	}
	return out
}

// decide ends with an answer in any case.
func (c *condition) decide() []bpf.Instruction {
	var out []bpf.Instruction
	matching, otherwise := uint32(unix.SECCOMP_RET_ALLOW), refusal(unix.EPERM)
	if c.refuses {
		matching, otherwise = otherwise, matching
	}
	for _, m := range c.matches {
		for i, a := range m {
			const size = 3 // instructions per argument
			rest := (len(m)-1-i)*size + 1
			out = append(out,
				bpf.LoadAbsolute{Off: offsetArgs + 8*a.index, Size: wordSize},
				bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: a.mask},
				bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: a.value, SkipTrue: uint8(rest)})
		}
		out = append(out, bpf.RetConstant{Val: matching})
	}
	return append(out, bpf.RetConstant{Val: otherwise})
}
