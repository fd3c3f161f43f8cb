package lastrun

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/pattern"
)

// Kernel is the log of the kernel: a file of its form, which is not there or not readable in some containers.
type Kernel string

// KernelLog is that of this machine: one entry a read, each "priority,number,microseconds,flags;text"
// (Documentation/ABI/testing/dev-kmsg of Linux).
const KernelLog Kernel = "/dev/kmsg"

// maxEntry is the longest entry, in bytes (CONSOLE_EXT_LOG_MAX of Linux).
const maxEntry = 8192

// Kill is a process that the kernel has ended for want of memory, of a cgroup or of the machine.
type Kill struct {
	PID     int
	Command string
	Entry   uint64 // number of the entry that says so
}

// killedText is how Linux says it since 5.0: "oom-kill:constraint=…,task=NAME,pid=N,uid=N".
var killedText = pattern.Of(`^oom-kill:.*,task=(.*),pid=(\d+),uid=\d+$`)

// Killed returns what the log has of such ends, and the number of its last entry.
func (k Kernel) Killed() (all []Kill, last uint64, err error) {
	fd, err := unix.Open(string(k), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, &os.PathError{Op: "open", Path: string(k), Err: err}
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	buf := make([]byte, maxEntry)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE): // EPIPE: entries were overwritten meanwhile
			continue
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return all, last, nil
		case err != nil:
			return all, last, &os.PathError{Op: "read", Path: string(k), Err: err}
		}
		if at, kill := parse(string(buf[:n])); at > 0 {
			last = at
			if kill != nil {
				all = append(all, *kill)
			}
		}
	}
}

// parse reads an entry; at is 0 for what is none.
func parse(entry string) (at uint64, kill *Kill) {
	head, text, _ := strings.Cut(entry, ";")
	parts := strings.Split(head, ",")
	if len(parts) < 2 {
		return 0, nil
	}
	at, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return 0, nil
	}
	text, _, _ = strings.Cut(text, "\n") // lines of properties follow
	m := killedText().FindStringSubmatch(text)
	if m == nil {
		return at, nil
	}
	pid, err := strconv.Atoi(m[2])
	if err != nil {
		return at, nil
	}
	return at, &Kill{PID: pid, Command: m[1], Entry: at}
}
