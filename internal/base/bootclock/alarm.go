package bootclock

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Alarm rings at a time of Now. The runtime's own timers stand still while the machine is suspended; an alarm whose
// time passes meanwhile rings when the machine goes on. It wakes no machine.
type Alarm struct{ file *os.File }

// NewAlarm returns an alarm that is silent, with a descriptor of its own: the caller must Close.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "an alarm of the time since boot")
	}
	return &Alarm{file: os.NewFile(uintptr(fd), "alarm")}, nil
}

// Set makes it ring at a time, at once if that has passed; 0 makes it silent.
func (a *Alarm) Set(at time.Duration) {
	raw, err := a.file.SyscallConn()
	if err != nil {
		return // it is closed: nobody waits for it
	}
	spec := &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	_ = raw.Control(func(fd uintptr) { // likewise
		_ = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, spec, nil) // a valid time is not refused
	})
}

// Wait returns when it has rung, or with os.ErrClosed.
func (a *Alarm) Wait() error {
	var rung [8]byte
	_, err := a.file.Read(rung[:])
	if err == nil && binary.NativeEndian.Uint64(rung[:]) == 0 {
		err = errors.New("the alarm rang not at all")
	}
	return err
}

// Close ends it, and what waits for it.
func (a *Alarm) Close() error { return a.file.Close() }
