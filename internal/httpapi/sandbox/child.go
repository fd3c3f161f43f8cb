package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/descriptors"
	"berth/internal/base/fault"
)

// Role is the name (the zeroth argument) under which the program is the child. No person can type it as a command.
const Role = "berth-hcl"

// Bounds of one child.
const (
	// CPU is the processor time, of all its threads.
	CPU = 2 * time.Second
	// Memory is what it may map to be written, and by how much its addresses may grow. A bound of the whole address
	// space would have to be above the 1.3 GB that Go's runtime reserves, and hardly uses, before main.
	Memory = 256 << 20
	// softMemory makes the collector work harder before the bound is met.
	softMemory = Memory / 2
	// stack of one goroutine: expressions nest no deeper than the parser's own limit.
	stack = 64 << 20
)

// nobody is the user and the group of the child of an agent that runs as root.
const nobody = 65534

// Main is the child: it bounds itself, reads one request, answers it, and ends. It returns the exit code.
func Main(in io.Reader, out io.Writer) int {
	runtime.LockOSThread() // never unlocked: the kernel's promise to end us with the agent is the thread's
	result := reply{}
	if err := confine(); err != nil {
		result.Fault = err.Error()
	} else {
		var req Request
		if err := json.NewDecoder(in).Decode(&req); err != nil {
			return 1 // the agent is gone
		}
		result = answer(&req)
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if enc.Encode(&result) != nil {
		return 1 // the agent is gone
	}
	return 0
}

// confine takes from the process all that evaluating does not need. Nothing from outside was read before. Capabilities
// were bounded, and new privileges forbidden, by the agent.
func confine() error {
	runtime.GOMAXPROCS(1)
	debug.SetMemoryLimit(softMemory)
	debug.SetMaxStack(stack)
	_ = os.WriteFile("/proc/self/comm", []byte(Role), 0) // for people who read ps
	// Where memory is short before the bound is met, it is not the agent that goes. Some containers forbid to say so.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	if err := errors.Join(closeFiles(), limit()); err != nil {
		return fault.Wrap(err, fault.Internal, "bound", "the evaluation of a job file")
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return fault.WithHint(
				fault.Wrap(err, fault.Internal, "give up", "the privileges of the evaluation of a job file"),
				"the agent must be able to become user 65534; or evaluate the file where you are, with: berth job run FILE")
		}
	}
	// A change of user takes this back, so that it comes last. Without a parent there is no input either.
	return fault.Wrap(unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0), fault.Internal, "bound",
		"the life of the evaluation of a job file")
}

// closeFiles closes what packages and the runtime have opened before main, but for the runtime's poller, without which
// it can't be and which leads nowhere. No number is used again: limit sees to that.
func closeFiles() error {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil || fd < descriptors.First || to == "anon_inode:[eventpoll]" || to == "anon_inode:[eventfd]" {
			continue // an error: it was that of the list
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return nil
}

// limit sets what the kernel holds the process to.
func limit() error {
	space, data, err := mapped()
	if err != nil {
		return err
	}
	cpu := uint64(CPU / time.Second)
	for _, l := range []struct {
		resource int
		max      uint64
	}{
		{unix.RLIMIT_AS, space + Memory},
		{unix.RLIMIT_DATA, max(Memory, data+Memory/2)}, // a build with the race detector begins with more than Memory
		{unix.RLIMIT_CPU, cpu},
		{unix.RLIMIT_NOFILE, 0}, // what is open stays; nothing more can be
		{unix.RLIMIT_FSIZE, 0},
		{unix.RLIMIT_CORE, 0},
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.max, Max: l.max}); err != nil {
			return fmt.Errorf("limit %d: %w", l.resource, err)
		}
	}
	return nil
}

// mapped tells how many bytes of addresses the process has, and how many of them it may write.
func mapped() (space, data uint64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kB uint64
		if n, _ := fmt.Sscanf(line, "VmSize: %d kB", &kB); n == 1 {
			space = kB << 10
		}
		if n, _ := fmt.Sscanf(line, "VmData: %d kB", &kB); n == 1 {
			data = kB << 10
		}
	}
	if space == 0 || data == 0 {
		return 0, 0, errors.New("/proc/self/status does not tell what is mapped")
	}
	return space, data, nil
}
