package agent

import (
	"context"
	"time"

	"berth/internal/base/logkey"
	"berth/internal/client/csimanager/node"
	"berth/internal/wire"
)

// Pauses between sessions that failed.
const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// session repeats fn with a growing pause until ctx ends; a run that lasted begins anew at the shortest pause.
func (a *Agent) session(ctx context.Context, name string, fn func(context.Context) error) error {
	select {
	case <-a.client.Registered():
	case <-ctx.Done():
		return nil
	}
	pause := minPause
	for {
		begun := time.Now()
		err := fn(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) > maxPause {
			pause = minPause
		}
		a.log.Debug("a session with the servers ended", "session", name, logkey.Error, err)
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		pause = min(2*pause, maxPause)
	}
}

// reportInventory tells the servers what the node holds: everything at each session, then what changed.
func (a *Agent) reportInventory(ctx context.Context) error {
	return a.session(ctx, "inventory", func(ctx context.Context) error {
		if !a.awaitArmed(ctx) {
			return nil
		}
		return node.Reporter{Keeper: a.storage.keeper, Sink: a.client, AllocIndex: a.client.AllocIndex}.Run(ctx)
	})
}

// awaitArmed waits for the first set of allocs: a report from before it would say nothing about them.
func (a *Agent) awaitArmed(ctx context.Context) bool {
	gate := a.client.Armed()
	for {
		ch := gate.Changed()
		if gate.Armed() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ch:
		}
	}
}

// takeWork makes the controller calls that the servers ask this node for.
func (a *Agent) takeWork(ctx context.Context) error {
	return a.session(ctx, "controller work", func(ctx context.Context) error {
		stream, err := wire.NodeWork.Open(ctx, a.client.Conn(), &wire.WorkRequest{NodeIdentity: a.client.Identity()})
		if err != nil {
			return err
		}
		return a.storage.executor.Serve(ctx, stream)
	})
}
