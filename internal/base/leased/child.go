package leased

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/bootclock"
	"berth/internal/base/descriptors"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
)

// Exit codes of shells for a program that could not be started.
const (
	codeNotExecuted = 126
	codeNotFound    = 127
	codeSignal      = 128 // with the signal's number
)

// keeper is the child at work.
type keeper struct {
	grace   time.Duration
	alarm   *bootclock.Alarm
	program int
	code    int

	stopping bool         // the program is to end, or has ended
	killing  bool         // and what is left of it gets SIGKILL
	asked    map[int]bool // to end
	refused  map[int]bool // could not be ended

	deaths, terms chan os.Signal
	lease         chan time.Duration // closed: whoever started the program has ended, or wants it to end
	rings         chan struct{}
}

// Main is the child. It returns the exit code: the program's.
func Main(ctx context.Context) int {
	runtime.LockOSThread() // never unlocked: the kernel ends the program with the thread that started it
	k, err := begin(os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	if k.program, err = start(os.Args[3:]); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %s cannot be started: %v\n", os.Args[3], err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return codeNotFound
		}
		return codeNotExecuted
	}
	g, _ := lifecycle.NewGroup(ctx)
	g.Go("lease", func() error { return k.listen(os.NewFile(descriptors.First, "lease")) })
	g.Go("alarm", k.ring)
	return k.run() // the others end with the process
}

func begin(args []string) (*keeper, error) {
	if len(args) < 4 {
		return nil, errors.New("a lease is for a program")
	}
	until, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return nil, err
	}
	grace, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	k := &keeper{
		grace:   time.Duration(grace),
		asked:   map[int]bool{},
		refused: map[int]bool{},
		deaths:  make(chan os.Signal, 1),
		terms:   make(chan os.Signal, 1),
		lease:   make(chan time.Duration),
		rings:   make(chan struct{}, 1),
	}
	if k.alarm, err = bootclock.NewAlarm(); err != nil {
		return nil, err
	}
	k.alarm.Set(time.Duration(until))
	signal.Notify(k.deaths, unix.SIGCHLD)
	signal.Notify(k.terms, unix.SIGTERM)
	// A terminal sends these to all of its foreground: what the program makes of them is its affair. They are not
	// ignored, which it would inherit; what whoever started us ignores stays so.
	passed := make(chan os.Signal, 1)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP} {
		if !signal.Ignored(s) {
			signal.Notify(passed, s)
		}
	}
	_ = os.WriteFile("/proc/self/comm", []byte("berth-lease"), 0) // for people who read ps
	return k, nil
}

// start starts the program. It ends with this thread, should this process be killed.
func start(args []string) (int, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
}

// listen hears until when the program may run.
func (k *keeper) listen(lease io.Reader) error {
	defer close(k.lease)
	for {
		var at [8]byte
		if _, err := io.ReadFull(lease, at[:]); err != nil {
			return nil // it is the end
		}
		k.lease <- time.Duration(binary.NativeEndian.Uint64(at[:]))
	}
}

func (k *keeper) ring() error {
	for {
		if err := k.alarm.Wait(); err != nil {
			return err
		}
		k.rings <- struct{}{}
	}
}

// run returns when nothing of the program runs any more.
func (k *keeper) run() int {
	for k.reap() {
		k.end()
		select {
		case <-k.deaths:
		case <-k.terms:
			k.stop()
		case at, holds := <-k.lease:
			switch {
			case !holds:
				k.lease = nil
				k.stop()
			case !k.stopping:
				k.alarm.Set(at)
			}
		case <-k.rings:
			k.killing = k.stopping
			k.stop()
		}
	}
	return k.code
}

// stop gives what runs its time to end.
func (k *keeper) stop() {
	if !k.stopping {
		k.stopping = true
		k.alarm.Set(bootclock.Now() + k.grace)
	}
}

// reap takes in what has ended; false: that was the last.
func (k *keeper) reap() bool {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // ECHILD
			return false
		case pid == 0:
			return true
		case pid == k.program:
			k.code = status.ExitStatus()
			if status.Signaled() {
				k.code = codeSignal + int(status.Signal())
			}
			k.stop() // what it leaves behind would run without whoever started it
		}
		delete(k.asked, pid)
		delete(k.refused, pid)
	}
}

// end asks what runs to end. Whatever loses its parent comes to this process, before the end of that is heard: so
// nothing stays that was not asked.
func (k *keeper) end() {
	if !k.stopping {
		return
	}
	found, err := children()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error: what the program has started cannot be seen:", err)
		return
	}
	for _, pid := range found {
		switch {
		case k.killing:
			err = unix.Kill(pid, unix.SIGKILL)
		case k.asked[pid]:
			continue
		default:
			k.asked[pid] = true
			err = errors.Join(unix.Kill(pid, unix.SIGTERM), unix.Kill(pid, unix.SIGCONT))
		}
		if err != nil && !k.refused[pid] {
			k.refused[pid] = true
			fmt.Fprintf(os.Stderr, "Error: process %d, which the program has started, cannot be ended: %v\n", pid, err)
		}
	}
}

// children are those of this process.
func children() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		parent, err := parentOf(pid)
		if err == nil && parent == os.Getpid() {
			out = append(out, pid)
		}
	}
	return out, nil
}

// parentOf reads who a process is a child of; an error says that it has ended.
func parentOf(pid int) (int, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// Its name, in parentheses, may have any characters; what follows has none.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, fault.New(fault.Internal, "read", "process "+strconv.Itoa(pid), "its state is cut off")
	}
	return strconv.Atoi(string(fields[1]))
}
