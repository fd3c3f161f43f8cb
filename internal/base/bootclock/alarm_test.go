package bootclock

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheAlarmRingsAtItsTimeAndIsSilentWithoutOne(t *testing.T) {
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	rang := make(chan error, 1)
	wait := func() { rang <- a.Wait() }
	go wait()
	begun := Now()
	a.Set(begun + time.Hour)
	a.Set(begun + 30*time.Millisecond) // nearer, while somebody waits
	if err := <-rang; err != nil || Now()-begun < 30*time.Millisecond {
		t.Errorf("it rang after %s: %v", Now()-begun, err)
	}
	a.Set(1) // long ago
	if err := a.Wait(); err != nil {
		t.Error(err)
	}
	a.Set(0)
	go wait()
	select {
	case err := <-rang:
		t.Errorf("it rang without a time: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-rang; !errors.Is(err, os.ErrClosed) {
		t.Errorf("its end: %v", err)
	}
	a.Set(1) // nobody waits for it any more
}

// TestTheAlarmGoesOnInASuspend: the clock that is waited by is the one that goes on while the machine is suspended, and
// what it is set to is a point of that clock, not a time from now.
func TestTheAlarmGoesOnInASuspend(t *testing.T) {
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }() // nothing is written to it
	a.Set(Now() + time.Hour)
	raw, err := a.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info []byte
	var read error
	err = raw.Control(func(fd uintptr) { info, read = os.ReadFile(fmt.Sprint("/proc/self/fdinfo/", fd)) })
	if err != nil || read != nil {
		t.Fatal(err, read)
	}
	boottime, absolute := fmt.Sprintf("clockid: %d\n", unix.CLOCK_BOOTTIME), "settime flags: 01\n"
	if text := string(info); !strings.Contains(text, boottime) || !strings.Contains(text, absolute) {
		t.Errorf("the kernel describes the clock as:\n%s", text)
	}
}
