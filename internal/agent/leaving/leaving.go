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

// Server has the server of a name leave: another one leads, then it is taken off the list. Why it does not is said in
// the log: it stops then as one that comes back. holds: the node beside it holds something.
func Server(ctx context.Context, servers wire.Conn, name string, holds bool, log *slog.Logger) (left bool) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	list, err := wire.ServerList.Call(ctx, servers, &wire.Query{})
	if err != nil {
		log.Warn("this server stays one of the cluster: the others could not be asked", logkey.Error, err)
		return false
	}
	if why := stays(list.Servers, name, holds); why != "" {
		log.Warn("this server stays one of the cluster, and stops", "why", why, "hint",
			"to take it out for good: berth server force-leave "+name)
		return false
	}
	for _, s := range list.Servers {
		if s.Name == name && s.Leader {
			err = until(ctx, func() error {
				_, err := wire.ServerTransfer.Call(ctx, servers, &wire.ServerRef{})
				return err
			})
		}
	}
	if err == nil {
		err = until(ctx, func() error {
			_, err := wire.ServerRemove.Call(ctx, servers, &wire.ServerRef{Name: name})
			return err
		})
	}
	if err != nil {
		log.Warn("this server stays one of the cluster: it could not be taken off the list", logkey.Error, err, "hint",
			"to take it out for good: berth server force-leave "+name)
		return false
	}
	log.Warn("this server has left the cluster, for good", "server", name, "hint",
		"to bring the machine back, let it join under another name")
	return true
}

// until repeats what fails because nobody leads at the moment.
func until(ctx context.Context, do func() error) error {
	for tries := 1; ; tries++ {
		err := do()
		if !fault.Has(err, fault.Unavailable) && !fault.Has(err, fault.NotReady) || !pause.Sleep(ctx, tries) {
			return err
		}
	}
}
