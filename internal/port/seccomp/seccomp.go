// Package seccomp owns what programs of confined tasks may ask of the kernel: the list of system calls, and the filter
// that is made of it. Drivers import it; who loads the filter needs nothing but its words.
package seccomp

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Compile makes the filter for this machine's architecture: the allowed calls, and those that the agent allows in
// addition, by name. The answer to a call that is refused is EPERM, to clone3 and to what neither list knows ENOSYS:
// programs then do without it, or in an older way. Calls of another architecture's form (of 32 bits) get ENOSYS too.
// The words are those of seccomp(2), eight bytes each, in the machine's order. An unknown name is fault.Invalid. With
// keepProjects tasks cannot change which project of their disk's quotas a file belongs to.
func Compile(additional []string, keepProjects bool) ([]byte, error) {
	m, err := thisMachine()
	if err != nil {
		return nil, err
	}
	if err := check(m, additional); err != nil {
		return nil, err
	}
	more := func(name string) bool { return slices.Contains(additional, name) }
	answers := map[uint32]uint32{}
	for _, list := range []struct {
		names  []string
		answer uint32
	}{{refused, refusal(unix.EPERM)}, {allowed, unix.SECCOMP_RET_ALLOW}, {additional, unix.SECCOMP_RET_ALLOW}} {
		for _, name := range list.names {
			if number, known := m.numbers[name]; known {
				answers[uint32(number)] = list.answer
			}
		}
	}
	return words(append(precondition(m, conditionsOf(keepProjects), more), search(answers)...))
}

// refusal answers a call with an error.
func refusal(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// words brings a filter into the form in which it is handed over.
func words(program []bpf.Instruction) ([]byte, error) {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "the filter of system calls")
	}
	out := make([]byte, 0, len(raw)*8)
	for _, i := range raw {
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out, nil
}

// Check says which of the names is no system call of this machine's architecture: a mistake that would widen nothing.
func Check(names []string) error {
	m, err := thisMachine()
	if err != nil {
		return err
	}
	return check(m, names)
}

func check(m *machine, names []string) error {
	var unknown []string
	for _, n := range names {
		if _, ok := m.numbers[n]; !ok {
			unknown = append(unknown, strconv.Quote(n))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fault.WithHint(
		fault.New(fault.Invalid, "", "system call "+strings.Join(unknown, ", "),
			"there is none of that name on "+m.name),
		"man 2 syscalls lists them")
}
