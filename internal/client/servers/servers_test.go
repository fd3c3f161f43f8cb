package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/redact"
	"berth/internal/client/localstate"
)

// nobody is where no server answers.
type nobody struct{}

// Dial implements Dialer.
func (nobody) Dial(context.Context) (net.Conn, error) { return nil, errors.New("nobody answers") }

func link(t *testing.T, log *slog.Logger) *Link {
	t.Helper()
	l, err := Connect(nobody{}, localstate.Identity{Node: "n", Secret: redact.New("s")}, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // it was never connected
	return l
}

// Given servers that are silent for a while, then that is logged once, and once that they answer again.
func TestSilenceIsLoggedOnceAndItsEndToo(t *testing.T) {
	var said bytes.Buffer
	l := link(t, slog.New(slog.NewTextHandler(&said, nil)))
	l.Reachable()
	for range 3 {
		l.Failed("call", errors.New("no answer"))
	}
	l.Reachable()
	l.Reachable()
	l.Failed("call", errors.New("no answer"))
	if text := said.String(); strings.Count(text, "can't be reached") != 2 ||
		strings.Count(text, "answer again") != 1 {
		t.Errorf("it said:\n%s", text)
	}
}

// Given a node that cannot do what its servers ask, then the log says that and why, once, and once that it can again,
// and never that the servers are silent.
func TestAFailureOfTheNodesOwnIsNotTheServersSilence(t *testing.T) {
	var said bytes.Buffer
	l := link(t, slog.New(slog.NewTextHandler(&said, nil)))
	for range 3 {
		l.Failed("follow", fmt.Errorf("take: %w", &Own{Err: errors.New("no space left on device")}))
	}
	l.Done()
	l.Done()
	text := said.String()
	if strings.Contains(text, "can't be reached") || strings.Count(text, "no space left on device") != 1 ||
		strings.Count(text, "does again what the servers ask") != 1 {
		t.Errorf("it said:\n%s", text)
	}
}

// Given an exchange that ends at once, again and again, then the pauses between grow, and one that lasted begins them
// anew; nothing is exchanged before the node is registered.
func TestExchangesThatFailAtOnceAreFurtherAndFurtherApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := link(t, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var begun []time.Time
		done := make(chan error, 1)
		go func() {
			done <- l.Repeat(ctx, "test", func(ctx context.Context) error {
				begun = append(begun, time.Now())
				if len(begun) == 10 {
					time.Sleep(time.Minute) // this one lasts
				}
				if len(begun) == 12 {
					cancel()
				}
				return errors.New("ended")
			})
		}()
		time.Sleep(time.Minute)
		if len(begun) != 0 {
			t.Error("something was exchanged before the node was registered")
		}
		l.Accepted("", 0)
		l.Accepted("", 0) // a node registers many times
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if len(begun) != 12 {
			t.Fatalf("%d exchanges", len(begun))
		}
		if first, later := begun[1].Sub(begun[0]), begun[9].Sub(begun[8]); later < 4*first || later > 2*Pause.Max {
			t.Errorf("the first pause was %s, the ninth %s", first, later)
		}
		if again := begun[10].Sub(begun[9]) - time.Minute; again > Pause.Max/2 {
			t.Errorf("after one that lasted the pause was %s", again)
		}
	})
}

// Given a gate, when it is opened and closed, then who waits hears of each change, and of none that is none.
func TestAGateTellsOfItsChangesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{}
		if g.Armed() {
			t.Error("it is open from the start")
		}
		opened := make(chan bool, 1)
		go func() { opened <- g.Await(t.Context()) }()
		synctest.Wait()
		same := g.Changed()
		g.Set(false)
		select {
		case <-same:
			t.Error("what is closed was closed: that is no change")
		default:
		}
		g.Set(true)
		if !<-opened || !g.Armed() {
			t.Error("it is not open")
		}
		select {
		case <-same:
		default:
			t.Error("nobody heard that it was opened")
		}
		g.Set(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if g.Await(ctx) {
			t.Error("it was closed, and let somebody through")
		}
	})
}
