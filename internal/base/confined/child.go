package confined

import (
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
	"berth/internal/base/lifecycle"
)

// stack bounds that of one goroutine, in bytes.
const stack = 64 << 20

// nobody is the user and the group of the child of an agent that runs as root.
const nobody = 65534

// The first byte of what a child answers says what the rest is.
const (
	isResult  = '='
	isProblem = '!' // with what was asked for, in its author's words
	isFault   = '?' // of the child
)

// Main is the child: it bounds itself, reads one request, does the work, answers, and ends. It returns the exit code.
// An error of kind Invalid is the author's problem; any other, and a panic, is ours.
func (w *Work) Main(in io.Reader, out io.Writer, do func(request []byte) ([]byte, error)) int {
	runtime.LockOSThread() // never unlocked: the kernel's promise to end us with the agent is the thread's
	var kind byte
	var answer []byte
	if err := w.confine(); err != nil {
		kind, answer = isFault, []byte(err.Error())
	} else {
		req, err := io.ReadAll(in)
		if err != nil {
			return 1 // the agent is gone
		}
		kind, answer = perform(do, req)
	}
	if _, err := out.Write([]byte{kind}); err != nil {
		return 1 // the agent is gone
	}
	if _, err := out.Write(answer); err != nil {
		return 1 // the agent is gone, or wants no more
	}
	return 0
}

// perform does the work and tells the author's faults from ours.
func perform(do func([]byte) ([]byte, error), req []byte) (kind byte, answer []byte) {
	kind = isResult
	ours := func(err error) { kind, answer = isFault, []byte(err.Error()) }
	run := lifecycle.Isolated("work", func() (err error) {
		answer, err = do(req)
		if fault.Has(err, fault.Invalid) {
			kind, answer = isProblem, []byte(err.Error())
			return nil
		}
		return err
	}, ours)
	if err := run(); err != nil {
		ours(err)
	}
	return kind, answer
}

// confine takes from the process all that evaluating does not need. Nothing from outside was read before. Capabilities
// were bounded, and new privileges forbidden, by the agent.
func (w *Work) confine() error {
	runtime.GOMAXPROCS(1)
	debug.SetMemoryLimit(w.Memory / 2) // the collector works harder before the bound is met
	debug.SetMaxStack(stack)
	_ = os.WriteFile("/proc/self/comm", []byte(w.Role), 0) // for people who read ps
	// Where memory is short before the bound is met, it is not the agent that goes. Some containers forbid to say so.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	if err := errors.Join(closeFiles(), w.limit()); err != nil {
		return fault.Wrap(err, fault.Internal, "bound", w.Process)
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return fault.WithHint(
				fault.Wrap(err, fault.Internal, "give up", "the privileges of "+w.Process),
				"the agent must be able to become user 65534"+w.Elsewhere)
		}
	}
	// A change of user takes this back, so that it comes last. Without a parent there is no input either.
	return fault.Wrap(unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0), fault.Internal, "bound",
		"the life of "+w.Process)
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
func (w *Work) limit() error {
	space, data, err := mapped()
	if err != nil {
		return err
	}
	memory, cpu := uint64(w.Memory), uint64(w.CPU/time.Second)
	for _, l := range []struct {
		resource int
		max      uint64
	}{
		{unix.RLIMIT_AS, space + memory},
		{unix.RLIMIT_DATA, max(memory, data+memory/2)}, // a build with the race detector begins with more
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
