package seccomp

import (
	"cmp"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// span is a range of calls' numbers with one answer: from its first to that of the next one.
type span struct{ first, answer uint32 }

// search is the part of the filter that answers a call by its number, which is loaded: by halves, as the kernel runs
// the filter for every call that there is when a task loads it. Numbers that are not given do not exist.
func search(answers map[uint32]uint32) []bpf.Instruction {
	missing := uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
	spans := []span{{0, missing}}
	for number, answer := range answers {
		spans = append(spans, span{number, answer})
		if _, given := answers[number+1]; !given {
			spans = append(spans, span{number + 1, missing})
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	if len(spans) > 1 && spans[1].first == 0 {
		spans = spans[1:] // call 0 is given
	}
	return halve(slices.CompactFunc(spans, func(a, b span) bool { return a.answer == b.answer }))
}

func halve(spans []span) []bpf.Instruction {
	if len(spans) == 1 {
		return []bpf.Instruction{bpf.RetConstant{Val: spans[0].answer}}
	}
	middle := len(spans) / 2
	lower, upper := halve(spans[:middle]), halve(spans[middle:])
	// A condition skips 255 instructions at the most, a jump any number.
	out := []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: spans[middle].first, SkipFalse: 1},
		bpf.Jump{Skip: uint32(len(lower))},
	}
	if len(lower) <= 255 {
		out = []bpf.Instruction{
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: spans[middle].first, SkipTrue: uint8(len(lower))},
		}
	}
	return slices.Concat(out, lower, upper)
}
