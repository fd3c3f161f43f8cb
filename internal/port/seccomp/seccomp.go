// Package seccomp owns what programs of confined tasks may ask of the kernel: the list of system calls, and the filter
// that is made of it. Drivers import it; who loads the filter needs nothing but its words.
package seccomp

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	filter "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
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
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, fault.Wrap(err, fault.Unsupported, "make", "the filter of system calls")
	}
	if err := check(machine, additional); err != nil {
		return nil, err
	}
	known := func(name string) bool { _, ok := machine.SyscallNames[name]; return ok }
	more := func(name string) bool { return slices.Contains(additional, name) }
	names := slices.DeleteFunc(slices.Concat(allowed, additional), func(n string) bool { return !known(n) })
	slices.Sort(names)
	denied := slices.DeleteFunc(slices.Clone(refused), func(n string) bool { return !known(n) || more(n) })
	policy := filter.Policy{
		DefaultAction: filter.ActionErrno,
		Syscalls: []filter.SyscallGroup{
			{Names: slices.Compact(names), Action: filter.ActionAllow},
			{Names: denied, Action: filter.ActionErrno | filter.Action(unix.EPERM)},
		},
	}
	program, err := policy.Assemble()
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "the filter of system calls")
	}
	// The library knows no number of an error for its default action, which is the last instruction.
	program[len(program)-1] = refusal(unix.ENOSYS)
	return words(append(precondition(machine, conditionsOf(keepProjects), more), program...))
}

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
	machine, err := arch.GetInfo("")
	if err != nil {
		return fault.Wrap(err, fault.Unsupported, "make", "the filter of system calls")
	}
	return check(machine, names)
}

func check(machine *arch.Info, names []string) error {
	var unknown []string
	for _, n := range names {
		if _, ok := machine.SyscallNames[n]; !ok {
			unknown = append(unknown, strconv.Quote(n))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fault.WithHint(
		fault.New(fault.Invalid, "", "system call "+strings.Join(unknown, ", "),
			"there is none of that name on "+machine.Name),
		"man 2 syscalls lists them")
}
