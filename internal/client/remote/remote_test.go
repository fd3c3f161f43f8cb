package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/localstate"
	"berth/internal/client/servers"
	"berth/internal/port/driver"
	"berth/internal/wire"
)

// nobody is where no server answers.
type nobody struct{}

// Dial implements servers.Dialer.
func (nobody) Dial(context.Context) (net.Conn, error) { return nil, errors.New("nobody answers") }

// Given a call that names a node, then another node refuses it; one that names none is for whoever gets it.
func TestACallForAnotherNodeIsRefused(t *testing.T) {
	link, err := servers.Connect(nobody{}, localstate.Identity{Node: "n"}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	m := New(Config{Link: link})
	if err := errors.Join(m.forMe("n"), m.forMe("")); err != nil {
		t.Error(err)
	}
	if err := m.forMe("another"); !fault.Has(err, fault.Invalid) {
		t.Errorf("a call for another node: %v", err)
	}
}

// refusing takes greetings and ends each connection at once, as a server does that does not know the node's session.
type refusing struct{ dials int }

// Dial implements servers.Dialer.
func (r *refusing) Dial(context.Context) (net.Conn, error) {
	r.dials++
	here, there := net.Pipe()
	go func() {
		_, _ = there.Read(make([]byte, 8192)) // the greeting is one write
		_ = there.Close()
	}()
	return here, nil
}

// Given a server that refuses the node's connections, then the node dials less and less often.
func TestARefusedConnectionIsNotDialledInAHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, err := servers.Connect(nobody{}, localstate.Identity{Node: "n"}, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer link.Close()
		link.Accepted("epoch", 0)
		server := &refusing{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := New(Config{Link: link, Reverse: server}).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if server.dials < 10 || server.dials > 25 {
			t.Errorf("it dials %d times in a minute", server.dials)
		}
	})
}

// Given a server that has refused the node's connections for a while, when it accepts the node anew, then the node
// dials at once.
func TestAConnectionIsOfferedAtOnceToServersThatAcceptTheNodeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, err := servers.Connect(nobody{}, localstate.Identity{Node: "n"}, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer link.Close()
		link.Accepted("epoch", 0)
		server := &refusing{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- New(Config{Link: link, Reverse: server}).Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		before := server.dials
		link.Accepted("next", 0)
		synctest.Wait()
		if server.dials != before+1 {
			t.Errorf("%d dials at that moment, want 1", server.dials-before)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAnOriginThatDoesNotExistIsRefused(t *testing.T) {
	for text, want := range map[string]bool{"": false, "start": false, "end": true} {
		if fromEnd, err := origin(text); err != nil || fromEnd != want {
			t.Errorf("%q: from the end %v, %v", text, fromEnd, err)
		}
	}
	if _, err := origin("middle"); !fault.Has(err, fault.Invalid) {
		t.Errorf("an origin of our own: %v", err)
	}
}

// Given readings of a task, then a rate is made of two that are far enough apart and of one process; anything else
// would be a number without a meaning.
func TestARateIsMadeOfTwoReadings(t *testing.T) {
	at := func(ms int, cpu uint64) driver.Stats {
		return driver.Stats{Time: time.Unix(100, int64(ms)*int64(time.Millisecond)), CPUNanos: cpu}
	}
	var u usage
	for _, c := range []struct {
		what string
		now  driver.Stats
		ok   bool
	}{
		{"the first", at(0, 10), false},
		{"one that comes too soon", at(10, 20), false},
		{"one that comes in time", at(200, 30), true},
		{"one of another process", at(400, 5), false},
		{"the next of that one", at(600, 5), true},
	} {
		old, ok := u.last("alloc/task", c.now)
		if ok != c.ok {
			t.Errorf("%s: a rate can be made: %v, of %+v", c.what, ok, old)
		}
	}
	if _, ok := u.last("alloc/other", at(800, 50)); ok {
		t.Error("a rate was made of the readings of two tasks")
	}
}

// Given the usages of tasks, then the alloc's is their sum, as new as the newest.
func TestAnAllocUsesWhatItsTasksUse(t *testing.T) {
	got := sum(wire.Usage{MemoryRSS: 1, CPUPercent: 10, CPUTicks: 3, Time: 7},
		wire.Usage{MemoryRSS: 2, CPUPercent: 20, CPUTicks: 4, Time: 5})
	if want := (wire.Usage{MemoryRSS: 3, CPUPercent: 30, CPUTicks: 7, Time: 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Given a caller who is gone, then what a command writes to him is refused as to a closed pipe, which ends the command;
// another error stays what it is.
func TestACommandWhoseCallerIsGoneIsEnded(t *testing.T) {
	gone := writerFunc(func([]byte) error { return fault.Wrap(context.Canceled, fault.Unavailable, "send", "") })
	if n, err := gone.Write([]byte("x")); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%d, %v", n, err)
	}
	broken := errors.New("broken")
	if _, err := writerFunc(func([]byte) error { return broken }).Write([]byte("x")); !errors.Is(err, broken) {
		t.Error(err)
	}
	if n, err := writerFunc(func([]byte) error { return nil }).Write([]byte("xyz")); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
