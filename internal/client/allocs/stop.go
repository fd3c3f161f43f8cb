package allocs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/allocrunner"
)

// releaseTimeout is how long a stopping agent lets storage plugins undo what allocs without processes still have.
const releaseTimeout = 10 * time.Second

// StopAll ends every alloc and waits until all are released and that is reported, then ends whatever shim is left.
// Orphans come first: nobody else ends them, and the plugins must still be there for their volumes.
func (a *Allocs) StopAll(ctx context.Context) error {
	a.mu.Lock()
	a.stopping = true
	a.mu.Unlock()
	err := a.shims.EndOrphans(ctx)
	err = errors.Join(err, a.stopRunners(ctx))
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, a.cfg.Shims.EndAll(ctx), a.unrecordedLeft())
}

// stopRunners ends every alloc and waits for it. Plugins come last, because the others need them to release
// volumes; one that does not undo its part in time is ended all the same.
func (a *Allocs) stopRunners(ctx context.Context) error {
	ordered := map[ids.Alloc]bool{}
	timeout := time.NewTimer(releaseTimeout)
	defer timeout.Stop()
	for stuck := false; ; {
		changed := a.changed.C()
		users, plugins := a.unreleased()
		if len(users) == 0 || stuck {
			users = append(users, plugins...)
		}
		left := false
		for _, r := range users {
			if !ordered[r.ID()] { // one that was being adopted when the agent began to stop appears later
				ordered[r.ID()] = true
				if err := r.Stop("The agent stops", true); err != nil {
					return err
				}
			}
			gone, _ := r.ProcessesGone()
			left = left || !gone
		}
		if len(users) == 0 || stuck && !left && len(plugins) == 0 {
			a.reports.drain(ctx)
			return notReleased(users)
		}
		select {
		case <-ctx.Done():
			return notReleased(users)
		case <-changed:
		case <-timeout.C:
			if stuck = !left; left {
				timeout.Reset(releaseTimeout)
			}
		}
	}
}

// unreleased returns the allocs that are not released: those that use the node's storage plugins, and the plugins.
func (a *Allocs) unreleased() (users, plugins []*allocrunner.Runner) {
	for _, r := range a.runners() {
		switch b := r.Bundle(); {
		case r.Released():
		case b.RunsPlugin():
			plugins = append(plugins, r)
		default:
			users = append(users, r)
		}
	}
	return users, plugins
}

func notReleased(left []*allocrunner.Runner) error {
	if len(left) == 0 {
		return nil
	}
	var names []string
	for _, r := range left {
		names = append(names, ids.Short(r.ID()))
	}
	return fault.WithHint(
		fault.New(fault.Timeout, "stop", "the node's tasks",
			fmt.Sprintf("allocations %s have not released what they use", strings.Join(names, ", "))),
		"the next start with the same data_dir goes on with it")
}
