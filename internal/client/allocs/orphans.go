package allocs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/allocrunner"
	"berth/internal/wire"
)

// Reasons why nobody decides about an alloc, for people.
const (
	unknownReason = "the servers do not know it, and nothing shows that they ever removed it: their state was " +
		"emptied, shortened or restored"
	ForeignReason    = "it was placed by another cluster state than the one that the servers have now"
	unrecordedReason = "this node has lost its record of it"
)

// keep makes an alloc an orphan and says so.
func (a *Allocs) keep(r *allocrunner.Runner, reason string) error {
	if o := r.Orphan(); r.Released() || o != nil && o.Reason == reason {
		return nil // nothing of it is left that could be kept, or it is kept already
	}
	b := r.Bundle().Alloc
	a.log.Warn("an allocation runs here that the servers do not know; it is kept until it ends by itself, or by: "+
		"berth node orphans end "+ids.Short(r.ID()),
		logkey.Alloc, r.ID(), logkey.Job, b.Job, "reason", reason)
	err := r.Keep(reason, time.Now().Round(0)) // the wall clock alone, as it is written down
	a.orphaned.Notify()
	return err
}

// KeepAll makes every alloc that has not ended an orphan.
func (a *Allocs) KeepAll(reason string) {
	for _, r := range a.Runners() {
		if err := a.keep(r, reason); err != nil {
			a.log.Error("an orphan's record could not be written", logkey.Alloc, r.ID(), logkey.Error, err)
		}
	}
}

// EndOrphan ends an orphan because a person said so: its tasks are stopped within their kill timeouts, its volumes are
// undone, then its directory and its record go. It returns when that has begun.
func (a *Allocs) EndOrphan(ctx context.Context, id ids.Alloc) error {
	r := a.Runner(id)
	switch {
	case a.unknownHere(id):
		return a.endUnrecorded(ctx, id)
	case r == nil:
		return notHere(id, "end")
	case r.Orphan() == nil:
		return fault.WithHint(
			fault.New(fault.Conflict, "end", fmt.Sprintf("allocation %q", id),
				"it is no orphan: the servers decide about it"),
			"stop it with: berth alloc stop "+ids.Short(id))
	}
	if err := cmp.Or(r.Usable("end"), a.needed(r)); err != nil {
		return err
	}
	a.log.Warn("a person ends an orphan", logkey.Alloc, id, logkey.Job, r.Bundle().Alloc.Job)
	return r.Stop("A person ended it: the servers do not know it", true)
}

// needed refuses to end an orphan that runs a storage plugin which others need to release their volumes: orphans, and
// allocs that the servers decide about, unless another instance of the plugin runs here.
func (a *Allocs) needed(r *allocrunner.Runner) error {
	if !r.Bundle().RunsPlugin() {
		return nil
	}
	refuse := func(text, hint string) error {
		return fault.WithHint(fault.New(fault.Conflict, "end", fmt.Sprintf("allocation %q", r.ID()), text), hint)
	}
	if user := a.orphanWithVolume(); user != "" {
		return refuse(fmt.Sprintf("it runs a storage plugin, and orphan %s still has a volume", ids.Short(user)),
			"end that one first: berth node orphans end "+ids.Short(user))
	}
	for _, p := range r.Bundle().Plugins() {
		if user := a.userOf(p, r.ID()); user != "" {
			return refuse(fmt.Sprintf("it runs storage plugin %q, of which allocation %s has a volume, and no other "+
				"instance of it runs here", p, ids.Short(user)), fmt.Sprintf("adopt it: berth node orphans adopt %s; "+
				"or stop the other first: berth alloc stop %s", ids.Short(r.ID()), ids.Short(user)))
		}
	}
	return nil
}

// userOf names an alloc that holds a volume of a plugin while only one alloc runs that here; empty: there is none.
func (a *Allocs) userOf(p ids.Plugin, instance ids.Alloc) (user ids.Alloc) {
	for _, r := range a.Runners() {
		switch {
		case r.ID() == instance || r.Released():
		case slices.Contains(r.Bundle().Plugins(), p) && !r.Stopping():
			return ""
		case slices.ContainsFunc(a.volumes.HeldBy(r.ID()), func(v wire.HeldVolume) bool { return v.Plugin == p }):
			user = r.ID()
		}
	}
	return user
}

// orphanWithVolume names an orphan that has not released its volumes.
func (a *Allocs) orphanWithVolume() ids.Alloc {
	for _, r := range a.Runners() {
		if r.Orphan() != nil && !r.Released() && len(r.Bundle().CSIVolumes()) > 0 {
			return r.ID()
		}
	}
	return ""
}
