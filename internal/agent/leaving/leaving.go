// Package leaving owns how an agent leaves its cluster when it stops, where its configuration says so
// (leave_on_interrupt, leave_on_terminate): its server is taken off the list, for good, if the others can go on without
// it. Only package agent imports it.
package leaving

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/model/trust"
	"berth/internal/wire"
)

// On says by which signals the agent leaves.
type On struct{ Interrupt, Terminate bool }

// By tells whether a signal, which stops the agent, has it leave; nil: none came.
func (o On) By(s os.Signal) bool {
	return s == os.Interrupt && o.Interrupt || s == syscall.SIGTERM && o.Terminate
}

// budget bounds how long a server that leaves waits for the others.
const budget = 15 * time.Second

var pause = retry.Backoff{Min: 100 * time.Millisecond, Max: time.Second}

// Self is a server that stops.
type Self interface {
	// Leaves has it say that it was asked to leave, and returns the index at which the list of servers last changed as
	// far as it knows, and whether it is one of them.
	Leaves() (asOf uint64, joined bool)
	// Stops has it say that it is about to stop, and comes back.
	Stops()
}

// Leaver is a server that is to leave.
type Leaver struct {
	Name    string
	Self    Self
	Servers wire.Conn // as it passes calls on
	Log     *slog.Logger

	asOf   uint64
	joined bool
}

// Asked notes what the server knew when it was asked to leave: those that left since were asked at once with it.
func (l *Leaver) Asked() { l.asOf, l.joined = l.Self.Leaves() }

// Leave has the server that leads take it off the list, which another one does if it leads itself. Why it does not is
// said in the log: it stops then as one that comes back. holds: the node beside it holds something; ctx ends when the
// server does. asks: it has asked to be taken off.
func (l *Leaver) Leave(ctx context.Context, holds bool) (asks bool) {
	hint := "to take it out for good: berth server force-leave " + l.Name
	switch {
	case !l.joined:
		l.Log.Info("this server leaves nothing: it has joined no cluster yet")
		return false
	case holds:
		l.Self.Stops()
		l.Log.Warn("this server stays one of the cluster, and stops", "why",
			"the node beside it holds allocations or volumes, which are found again with this server alone",
			"hint", hint)
		return false
	}
	call, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	err := until(call, func() error {
		_, err := wire.ServerLeave.Call(call, l.Servers, &wire.LeaveRequest{Name: l.Name, AsOf: l.asOf})
		return err
	})
	switch {
	case err == nil || trust.IsRemoved(err):
		l.Log.Warn("this server has left the cluster, for good", "server", l.Name, "hint",
			"to bring the machine back, let it join under another name")
	case ctx.Err() != nil:
		l.Log.Warn("this server ends before it has heard whether it has left: its next start says so",
			logkey.Error, err)
	default:
		l.Self.Stops()
		l.Log.Warn("this server stays one of the cluster, and stops: it was not taken off the list", logkey.Error, err,
			"hint", hint)
	}
	return true
}

// until repeats what fails because nobody leads at the moment, or without a word whether it was done.
func until(ctx context.Context, do func() error) error {
	for tries := 1; ; tries++ {
		err := do()
		again := fault.Has(err, fault.Unavailable) || fault.Has(err, fault.NotReady) || fault.Has(err, fault.Timeout)
		if !again || !pause.Sleep(ctx, tries) {
			return err
		}
	}
}
