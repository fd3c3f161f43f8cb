package seccomp

import (
	filter "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
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

// precondition is the part of the filter that looks at arguments, before the part that knows names alone. The library
// could do both, but goes on from a condition that does not hold with the argument in place of the call's number. Each
// call with a condition is decided here, whatever its arguments.
func precondition(machine *arch.Info, of []condition, additional func(name string) bool) []bpf.Instruction {
	var decisions []bpf.Instruction
	for _, c := range of {
		number, known := machine.SyscallNames[c.name]
		if known && !additional(c.name) {
			decision := c.decide()
			decisions = append(decisions,
				bpf.LoadAbsolute{Off: offsetNumber, Size: wordSize},
				bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(number), SkipTrue: uint8(len(decision))})
			decisions = append(decisions, decision...)
		}
	}
	return append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: wordSize},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(machine.ID), SkipTrue: uint8(len(decisions))},
	}, decisions...)
}

// decide ends with an answer in any case.
func (c *condition) decide() []bpf.Instruction {
	var out []bpf.Instruction
	matching, otherwise := bpf.Instruction(bpf.RetConstant{Val: uint32(filter.ActionAllow)}), refusal(unix.EPERM)
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
		out = append(out, matching)
	}
	return append(out, otherwise)
}

// refusal answers a call with an error.
func refusal(e unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: uint32(filter.ActionErrno) | uint32(e)}
}
