package locks

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/model/variable"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/variables"
	"berth/internal/testkit/localstate"
)

var (
	here = variables.At{Namespace: "default", Path: "app/leader"}
	lock = variable.Lock{ID: "mine", TTL: 10 * time.Second, Delay: 15 * time.Second}
)

// sometimes refuses what is proposed while that is set.
type sometimes struct {
	*localstate.Cluster
	refuse atomic.Bool
}

func (s *sometimes) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	if s.refuse.Load() {
		return nil, 0, errors.New("the log is full")
	}
	return s.Cluster.Propose(ctx, cmd)
}

// story is a keeper that leads, with a lock that was just taken.
type story struct {
	*testing.T
	state *sometimes
	*Keeper
	end func()
}

func begin(t *testing.T) *story {
	s := &story{T: t, state: &sometimes{Cluster: localstate.New(t)}}
	s.Keeper = New(s.state.Store, s.state, slog.New(slog.DiscardHandler))
	s.take(lock)
	s.lead()
	return s
}

func (s *story) take(l variable.Lock) {
	out := s.state.Must(s.T, &variables.Acquire{At: here, Lock: l, Empty: []byte{1}}).(*variables.Outcome)
	if out.Conflict != "" {
		s.Fatal(out.Conflict)
	}
}

// lead begins a term.
func (s *story) lead() {
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- s.Keeper.Run(ctx) }()
	s.end = func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
	}
	synctest.Wait()
}

func (s *story) held(want string) {
	s.Helper()
	synctest.Wait()
	v := s.state.Store.Snapshot().Variable(nil, here.Namespace, here.Path)
	if !v.Holds(want) && want != "" || want == "" && v.Lock != nil {
		s.Errorf("held by %+v, want %q", v.Lock, want)
	}
}

func (s *story) renew(want variable.Conflict) {
	s.Helper()
	if got, err := s.Keeper.Renew(here, lock.ID); got != want || err != nil {
		s.Errorf("renewed: %q %v, want %q", got, err, want)
	}
}

// Given a lock, when its holder renews it, then it holds; when he is silent for its TTL it is lost, what he says after
// that changes nothing, and another one has it only when its delay is over.
func TestALockThatIsNotRenewedIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		defer func() { s.end() }()
		for range 5 {
			time.Sleep(9 * time.Second)
			s.renew("")
			s.held("mine")
		}
		time.Sleep(10*time.Second - 1)
		s.held("mine")
		time.Sleep(time.Nanosecond)
		s.held("")
		s.renew(variable.NotHeld)
		next := lock
		next.ID = "other"
		got := s.state.Must(t, &variables.Acquire{At: here, Lock: next}).(*variables.Outcome)
		if got.Conflict == "" {
			t.Error("acquired before the delay is over")
		}
		time.Sleep(lock.Delay)
		s.take(next)
		s.held("other")
		time.Sleep(9 * time.Second)
		s.held("other")
	})
}

// Given another server that leads, then every holder has his full time anew, and the one that led renews nothing.
func TestAnotherLeaderCountsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		time.Sleep(9 * time.Second)
		s.end()
		if _, err := s.Keeper.Renew(here, lock.ID); err == nil {
			t.Error("renewed by a server that does not lead")
		}
		time.Sleep(time.Minute)
		s.lead()
		time.Sleep(9 * time.Second)
		s.held("mine")
		time.Sleep(time.Second)
		s.held("")
		s.end()
	})
}

// Given a lock whose loss cannot be written down yet, then its holder is refused meanwhile, and it is tried again.
func TestALossThatIsNotWrittenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		defer s.end()
		s.state.refuse.Store(true)
		time.Sleep(lock.TTL)
		s.held("mine")
		s.renew(variable.NotHeld)
		s.state.refuse.Store(false)
		time.Sleep(retryPause)
		s.held("")
	})
}

// Given a lock that was given back and taken by another one, then the time of the first is not that of the second.
func TestALockThatWasGivenBackIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		defer s.end()
		time.Sleep(9 * time.Second)
		s.state.Must(t, &variables.Release{At: here, Lock: "mine"})
		next := lock
		next.ID = "other"
		s.take(next)
		time.Sleep(9 * time.Second)
		s.held("other")
	})
}

// Given a holder that takes his lock once more, for another time, when he renews it, then that is the time he has.
func TestALockThatIsTakenOnceMoreHasItsNewTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		defer s.end()
		longer := lock
		longer.TTL = 3 * lock.TTL
		out := s.state.Must(t, &variables.Acquire{At: here, Lock: longer, Again: true}).(*variables.Outcome)
		if out.Conflict != "" {
			t.Fatal(out.Conflict)
		}
		synctest.Wait()
		s.renew("")
		time.Sleep(longer.TTL - 1)
		s.held("mine")
		time.Sleep(time.Nanosecond)
		s.held("")
	})
}
