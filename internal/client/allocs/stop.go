package allocs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
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

// KillAll kills what StopAll left and forgets its secrets, because no later run of the agent finds it. Volumes stay
// mounted: the plugins that would undo that are killed, too.
func (a *Allocs) KillAll(ctx context.Context) error {
	var errs []error
	for _, r := range a.Runners() {
		errs = append(errs, r.Stop("The agent stops", true)) // so that nothing is started again
	}
	errs = append(errs, a.cfg.Shims.EndAll(ctx))
	for _, r := range a.Runners() {
		errs = append(errs, a.AllocDir(r.ID()).DropSecrets())
	}
	return errors.Join(errs...)
}

// Disclose unmounts the file systems of allocs that have ended. The next run of the agent mounts them again, so that
// people can read what is in them. It comes after Run.
func (a *Allocs) Disclose() error {
	var errs []error
	for _, r := range a.Runners() {
		if r.Released() {
			errs = append(errs, a.AllocDir(r.ID()).Disclose())
		}
	}
	return errors.Join(errs...)
}

// show mounts the file systems of allocs that had ended when the agent was started: after a reboot, or the orderly end
// of a -dev agent, they are not mounted.
func (a *Allocs) show(ctx context.Context) {
	for _, r := range a.found {
		if !r.Released() {
			continue // its hooks do
		}
		if err := a.AllocDir(r.ID()).Enclose(ctx, 0, false); err != nil {
			a.log.Warn("what an allocation has written can't be shown", logkey.Alloc, r.ID(), logkey.Error, err)
		}
	}
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
	for _, r := range a.Runners() {
		switch b := r.Bundle(); {
		case r.Released() || r.Barred() != "": // it ends with its shim, and its storage stays
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
