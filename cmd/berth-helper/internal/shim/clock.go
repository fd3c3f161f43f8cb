package shim

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// alarm rings at a time of CLOCK_BOOTTIME. The runtime's own timers stand still while the machine is suspended.
type alarm struct{ file *os.File }

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "the shim's alarm")
	}
	return &alarm{file: os.NewFile(uintptr(fd), "alarm")}, nil
}

// set makes it ring at a time, at once if that has passed; 0 makes it silent.
func (a *alarm) set(at int64) {
	raw, err := a.file.SyscallConn()
	if err != nil {
		return // it is closed: the shim ends
	}
	spec := &unix.ItimerSpec{Value: unix.NsecToTimespec(at)}
	_ = raw.Control(func(fd uintptr) { // likewise
		_ = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, spec, nil) // a valid time is not refused
	})
}

// wait returns when it has rung, or with os.ErrClosed.
func (a *alarm) wait() error {
	var rung [8]byte
	_, err := a.file.Read(rung[:])
	if err == nil && binary.NativeEndian.Uint64(rung[:]) == 0 {
		err = errors.New("the alarm rang not at all")
	}
	return err
}

// keepTime ends what has lived past its deadline, whether an agent is there or not.
func (s *Shim) keepTime() error {
	for {
		if err := s.alarm.wait(); err != nil {
			if errors.Is(err, os.ErrClosed) {
				return nil
			}
			return err
		}
		s.alarm.set(s.due(shimproto.Boottime()))
	}
}

// due ends what is past its deadline, and returns the next deadline; 0 if there is none.
func (s *Shim) due(now int64) (next int64) {
	s.mu.Lock()
	all, lease := s.ledger.processes(), s.lease.Deadline
	s.mu.Unlock()
	if lease > now {
		next = lease
	}
	for _, p := range all {
		deadline := p.deadline()
		switch {
		case lease != 0 && lease <= now:
			p.end()
		case deadline == 0:
		case deadline <= now:
			p.teardown()
		case next == 0 || deadline < next:
			next = deadline
		}
	}
	return next
}

// nudge has the deadlines looked at again.
func (s *Shim) nudge() { s.alarm.set(1) }

// renew takes over a renewal of the lease, and returns the lease as it stands.
func (s *Shim) renew(m *shimproto.Lease) *shimproto.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.At > s.lease.At {
		s.lease.At = m.At
		if m.Deadline == 0 || m.Deadline > s.lease.Deadline {
			s.lease.Deadline = m.Deadline
		}
		s.nudge()
	}
	out := s.lease
	return &out
}

// leaseOver reports whether tasks may not run. The caller holds the lock.
func (s *Shim) leaseOver() bool {
	return s.lease.Deadline != 0 && s.lease.Deadline <= shimproto.Boottime()
}
