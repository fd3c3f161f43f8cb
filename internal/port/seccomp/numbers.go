package seccomp

import (
	_ "embed" // for the tables
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// The tables have a line for each system call: its number and its name. As texts they cost nothing until a filter is
// made, which most runs of the program never do.
var (
	//go:embed numbers_amd64.txt
	amd64 string
	//go:embed numbers_arm64.txt
	arm64 string
)

// machine is an architecture, as the kernel knows it.
type machine struct {
	name    string
	audit   uint32 // AUDIT_ARCH_
	numbers map[string]int
}

// thisMachine is the architecture of this program.
var thisMachine = sync.OnceValues(func() (*machine, error) { return machineOf(runtime.GOARCH) })

func machineOf(goarch string) (*machine, error) {
	m := &machine{numbers: map[string]int{}}
	var table string
	switch goarch {
	case "amd64":
		m.name, m.audit = "x86_64", unix.AUDIT_ARCH_X86_64
		table = amd64
	case "arm64":
		m.name, m.audit = "aarch64", unix.AUDIT_ARCH_AARCH64
		table = arm64
	default:
		return nil, fault.New(fault.Unsupported, "make", "the filter of system calls", "there is no table for "+goarch)
	}
	for line := range strings.Lines(table) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fault.Wrap(err, fault.Internal, "read", "the table of system calls of "+goarch)
		}
		m.numbers[name] = n
	}
	return m, nil
}
