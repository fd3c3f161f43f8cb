package shim

import (
	"errors"
	"os"
	"time"

	"berth/internal/shimproto"
)

// keepTime ends what has lived past its deadline, whether an agent is there or not.
func (s *Shim) keepTime() error {
	for {
		if err := s.alarm.Wait(); err != nil {
			if errors.Is(err, os.ErrClosed) {
				return nil
			}
			return err
		}
		s.alarm.Set(time.Duration(s.due(shimproto.Boottime())))
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
func (s *Shim) nudge() { s.alarm.Set(1) }

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
