package seccomp

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"berth/e2e/hostile"
	"berth/internal/base/fault"
)

// answers runs a filter over a call as the kernel does.
func answers(t *testing.T, words []byte, machine uint32, number int, args ...uint64) uint32 {
	t.Helper()
	program := instructions(words)
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	// A packet is read in the network's order, the record of a call in the machine's: the words are turned around.
	record := make([]byte, offsetArgs+6*8)
	binary.BigEndian.PutUint32(record[offsetNumber:], uint32(number))
	binary.BigEndian.PutUint32(record[offsetArch:], machine)
	for i, a := range args {
		binary.BigEndian.PutUint32(record[offsetArgs+8*i:], uint32(a))
		binary.BigEndian.PutUint32(record[offsetArgs+8*i+4:], uint32(a>>32))
	}
	got, err := vm.Run(record)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

// instructions are those of a filter.
func instructions(words []byte) []bpf.Instruction {
	var program []bpf.Instruction
	for w := range slices.Chunk(words, 8) {
		program = append(program, bpf.RawInstruction{
			Op: binary.NativeEndian.Uint16(w),
			Jt: w[2],
			Jf: w[3],
			K:  binary.NativeEndian.Uint32(w[4:]),
		}.Disassemble())
	}
	return program
}

const (
	allow = uint32(unix.SECCOMP_RET_ALLOW)
	eperm = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	enosy = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
)

func compile(t *testing.T, additional ...string) ([]byte, *arch.Info) {
	t.Helper()
	words, err := Compile(additional, false)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	return words, machine
}

// Every call of the architecture has the answer of its list, whatever its arguments; what is on no list there is not.
func TestEveryCallHasTheAnswerOfItsList(t *testing.T) {
	words, machine := compile(t)
	if n := len(words) / 8; n > 4096 {
		t.Errorf("it has %d instructions; the kernel takes 4096", n)
	}
	for number, name := range machine.SyscallNumbers {
		if slices.ContainsFunc(conditions, func(c condition) bool { return c.name == name }) {
			continue
		}
		want := enosy
		switch {
		case slices.Contains(allowed, name):
			want = allow
		case slices.Contains(refused, name):
			want = eperm
		}
		for _, argument := range []uint64{0, ^uint64(0), uint64(machine.SyscallNames["read"])} {
			if got := answers(t, words, uint32(machine.ID), number, argument, argument, argument); got != want {
				t.Errorf("%s with %#x: %#x, want %#x", name, argument, got, want)
			}
		}
	}
	for _, number := range []int{100000, -1, 0x40000000} {
		if got := answers(t, words, uint32(machine.ID), number); got != enosy {
			t.Errorf("call %d: %#x", number, got)
		}
	}
	if got := answers(t, words, uint32(arch.I386.ID), machine.SyscallNames["read"]); got != enosy {
		t.Errorf("a call of another architecture: %#x", got)
	}
}

// Given the whole list, when any call is looked up by its number, then it is answered in some ten steps beside those of
// the calls whose arguments matter: at each start the kernel runs all calls through the filter.
func TestACallIsAnsweredInFewSteps(t *testing.T) {
	words, machine := compile(t)
	program := instructions(words)
	for number, name := range machine.SyscallNumbers {
		steps := 0
		for at := 0; at < len(program); at++ {
			steps++
			switch i := program[at].(type) {
			case bpf.JumpIf:
				if jumps(i, uint32(number), uint32(machine.ID)) {
					at += int(i.SkipTrue)
				} else {
					at += int(i.SkipFalse)
				}
			case bpf.Jump:
				at += int(i.Skip)
			case bpf.RetConstant:
				at = len(program)
			}
		}
		if most := 4 + len(conditions) + 12; steps > most && !slices.ContainsFunc(conditions,
			func(c condition) bool { return c.name == name }) {
			t.Errorf("%s is answered after %d steps, of %d at the most", name, steps, most)
		}
	}
	if len(program) > 300 {
		t.Errorf("it has %d instructions", len(program))
	}
}

// jumps reports whether a condition holds of a call's number, or of the machine, which is looked at first.
func jumps(i bpf.JumpIf, number, machine uint32) bool {
	of := number
	if i.Val == machine {
		of = machine
	}
	switch i.Cond {
	case bpf.JumpEqual:
		return of == i.Val
	case bpf.JumpNotEqual:
		return of != i.Val
	default:
		return of >= i.Val
	}
}

func TestArgumentsDecide(t *testing.T) {
	words, machine := compile(t)
	for _, c := range []struct {
		call string
		args []uint64
		want uint32
	}{
		{"clone", []uint64{uint64(unix.SIGCHLD)}, allow},
		{"clone", []uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, allow},
		{"clone", []uint64{unix.CLONE_NEWUSER}, eperm},
		{"clone", []uint64{unix.CLONE_NEWNS | unix.CLONE_VM}, eperm},
		{"clone", []uint64{unix.CLONE_NEWCGROUP}, eperm},
		{"clone", []uint64{1<<32 | unix.CLONE_NEWUSER}, eperm},
		{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM, 17}, allow},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}, allow},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, eperm},
		{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, eperm},
		{"socket", []uint64{1<<32 | unix.AF_VSOCK, unix.SOCK_STREAM, 0}, eperm},
		{"personality", []uint64{0xffffffff}, allow},
		{"personality", []uint64{0x0008}, allow},
		{"personality", []uint64{0x0040000}, eperm},
	} {
		if got := answers(t, words, uint32(machine.ID), machine.SyscallNames[c.call], c.args...); got != c.want {
			t.Errorf("%s%#x: %#x, want %#x", c.call, c.args, got, c.want)
		}
	}
}

// Whose disk is held to a quota cannot take a file out of its project; all other requests pass, and so do these where
// there is no quota.
func TestFilesStayInTheProjectsOfTheirQuotas(t *testing.T) {
	without, machine := compile(t)
	with, err := Compile(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	number := machine.SyscallNames["ioctl"]
	for request, want := range map[uint64]uint32{
		0x401c5820:         eperm, // FS_IOC_FSSETXATTR
		0x40086602:         eperm, // FS_IOC_SETFLAGS
		1<<32 | 0x401c5820: eperm,
		0x801c581f:         allow, // FS_IOC_FSGETXATTR
		unix.TIOCGWINSZ:    allow,
		unix.BLKGETSIZE64:  allow,
	} {
		if got := answers(t, with, uint32(machine.ID), number, 3, request, 0); got != want {
			t.Errorf("%#x: %#x, want %#x", request, got, want)
		}
		if got := answers(t, without, uint32(machine.ID), number, 3, request, 0); got != allow {
			t.Errorf("%#x without quotas: %#x", request, got)
		}
	}
	if got := answers(t, with, uint32(machine.ID), machine.SyscallNames["socket"], unix.AF_VSOCK); got != eperm {
		t.Errorf("another condition: %#x", got)
	}
	if got := answers(t, with, uint32(machine.ID), 469); got != enosy {
		t.Errorf("file_setattr: %#x", got)
	}
}

// Whatever a task has open, it does not rebind the node's loop devices, nor type into terminals of others.
func TestLoopDevicesStayBound(t *testing.T) {
	for _, keep := range []bool{false, true} {
		words, err := Compile(nil, keep)
		if err != nil {
			t.Fatal(err)
		}
		machine, err := arch.GetInfo("")
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range []uint64{unix.LOOP_CLR_FD, unix.LOOP_SET_FD, 0x4c06, unix.LOOP_SET_STATUS64,
			unix.LOOP_CONFIGURE, unix.LOOP_CTL_REMOVE, 7<<32 | unix.LOOP_CLR_FD, unix.TIOCSTI, unix.TIOCLINUX} {
			got := answers(t, words, uint32(machine.ID), machine.SyscallNames["ioctl"], 3, request, 0)
			if got != eperm {
				t.Errorf("%#x: %#x", request, got)
			}
		}
	}
}

func TestAnAgentAllowsMore(t *testing.T) {
	words, machine := compile(t, "ptrace", "clone", "read")
	for name, want := range map[string]uint32{"ptrace": allow, "clone": allow, "read": allow, "keyctl": eperm,
		"clone3": enosy} {
		if got := answers(t, words, uint32(machine.ID), machine.SyscallNames[name], unix.CLONE_NEWUSER); got != want {
			t.Errorf("%s: %#x, want %#x", name, got, want)
		}
	}
	_, err := Compile([]string{"read", "sys_ptrace"}, false)
	for _, err := range []error{err, Check([]string{"sys_ptrace"})} {
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), `"sys_ptrace"`) {
			t.Errorf("an unknown name: %v", err)
		}
	}
	if err := Check([]string{"ptrace"}); err != nil {
		t.Error(err)
	}
}

// A name that is misspelt would be passed over, and one on two lists would have the answer of the first.
func TestTheListsNameEachCallOnce(t *testing.T) {
	known := map[string]bool{"send": true, "recv": true, "umount": true, "stime": true} // of 32-bit machines
	for _, a := range []*arch.Info{arch.X86_64, arch.AARCH64, arch.I386} {
		for name := range a.SyscallNames {
			known[name] = true
		}
	}
	seen := map[string]bool{}
	names := slices.Concat(allowed, refused)
	for _, c := range conditions {
		names = append(names, c.name)
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("no architecture has %s", name)
		}
		if seen[name] {
			t.Errorf("%s stands on the lists twice", name)
		}
		seen[name] = true
	}
	if seen["clone3"] {
		t.Error("clone3 has to be on no list: its answer is ENOSYS")
	}
}

// Given the calls that are refused, then a task of the tests makes each that its machine has, so that none can come to
// be allowed unseen.
func TestEveryRefusedCallIsTriedInATask(t *testing.T) {
	machine, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range refused {
		_, known := machine.SyscallNames[name]
		if known && !slices.ContainsFunc(hostile.Calls(), func(a hostile.Attempt) bool {
			call := strings.TrimPrefix(a.Name, "system call: ")
			return call == name || strings.HasPrefix(call, name+" ")
		}) {
			t.Errorf("%s is not tried", name)
		}
	}
}

// The tables are what the kernel's own are, as a library knows them that is made from those.
func TestTheTablesOfNumbersAreThoseOfTheKernel(t *testing.T) {
	for goarch, want := range map[string]*arch.Info{"amd64": arch.X86_64, "arm64": arch.AARCH64} {
		got, err := machineOf(goarch)
		if err != nil {
			t.Fatal(err)
		}
		if got.name != want.Name || got.audit != uint32(want.ID) || !maps.Equal(got.numbers, want.SyscallNames) {
			t.Errorf("%s: %d calls of %s, %#x; want %d of %s, %#x", goarch, len(got.numbers), got.name, got.audit,
				len(want.SyscallNames), want.Name, uint32(want.ID))
		}
	}
	if _, err := machineOf("mips"); !fault.Has(err, fault.Unsupported) {
		t.Errorf("an architecture without a table: %v", err)
	}
}
