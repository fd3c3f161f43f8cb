package node

import (
	"context"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/csimanager/instance"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

// runOf is the run of the plugin behind a connection.
func runOf(conn *instance.Connection) entry.Run {
	return entry.Run{Alloc: conn.Info.Alloc, Attempt: conn.Info.Attempt}
}

// living are the runs of a plugin that an entry names and of which a process may live.
type living struct{ unanswered, serving []entry.Run }

// alive asks which of the runs that an entry names may have a process. A run is over when its alloc's processes are
// proven gone, or when its task was started anew.
func (k *Keeper) alive(key volume.StagingKey, conn *instance.Connection) (out living) {
	e := k.Snapshot(key)
	if e == nil {
		return out
	}
	over := func(r entry.Run) bool {
		if now := runOf(conn); now.Alloc == r.Alloc {
			return now.Attempt > r.Attempt
		}
		gone, _ := k.cfg.Processes.ProcessesGone(r.Alloc)
		return gone
	}
	return living{
		unanswered: slices.DeleteFunc(e.Unanswered, over),
		serving:    slices.DeleteFunc(e.Serving, over),
	}
}

// asks writes down that a run is given a call, beside those that have not answered an earlier one. The caller holds the
// lock.
func (vs *volumeState) asks(r entry.Run, alive living) {
	vs.flight.late = slices.Clone(alive.unanswered)
	vs.entry.Unanswered = append(alive.unanswered, r)
	vs.entry.Serving = alive.serving
}

// answered writes down that a run has answered, if the answer came from it.
func (k *Keeper) answered(key volume.StagingKey, r entry.Run, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil {
		return
	}
	if csi.Lost(err) && !slices.Contains(vs.flight.late, r) {
		vs.flight.late = append(vs.flight.late, r)
	}
	vs.entry.Unanswered = slices.Clone(vs.flight.late)
}

// stillServed lets no unstaging count as done while a run of the plugin lives that served what this node has unmounted
// itself: its daemon may still write.
func (k *Keeper) stillServed(s entry.Step, err error, alive living) error {
	if s.Verb != entry.Unstage || len(alive.serving) == 0 || err != nil && csi.RetryOf(err) != volume.RetryVerify {
		return err
	}
	return entry.Served(alive.serving[0])
}

// unmountOwn unmounts itself what the plugin said that it has undone and that is still there, if the law of it allows
// that. The intent is on disk before. It returns what is left to be said; nil: nothing, or nothing was done.
func (k *Keeper) unmountOwn(ctx context.Context, key volume.StagingKey, s entry.Step, err error) error {
	if k.cfg.Unmount == nil || s.Making() || s.Verb == entry.Expand ||
		err != nil && csi.RetryOf(err) != volume.RetryVerify {
		return nil
	}
	table, terr := hostfs.ReadTable()
	e := k.Snapshot(key)
	if terr != nil || e == nil || e.PresenceOf(s) == nil {
		return terr
	}
	path, _ := evidence.Traces(e, s)
	left := evidence.Mounts(table, path)
	if len(left) == 0 {
		return nil
	}
	gone := true
	if s.Verb == entry.Unpublish {
		gone, _ = k.cfg.Processes.ProcessesGone(s.Alloc)
	}
	k.mu.Lock()
	vs := k.vols[key]
	if vs == nil {
		k.mu.Unlock()
		return nil
	}
	f := entry.UnmountFacts{
		Answered:   true,
		Before:     vs.retries[s].failures,
		Gone:       gone,
		Unanswered: len(vs.entry.Unanswered) > 0,
		CutOff:     vs.call.CutOff(k.readingEnds),
		Top:        left[0],
	}
	may, why := entry.MayUnmount(vs.entry, s, f)
	if may {
		vs.entry.Unmounts(s, left[0])
		vs.touch()
	}
	k.mu.Unlock()
	if !may {
		if why == "" {
			return nil
		}
		return fault.New(fault.Unavailable, string(s.Verb), entry.Describe(key), why)
	}
	if err := k.save(key); err != nil {
		return err
	}
	k.cfg.Log.Warn("the plugin says that it is done and its mount is there: the node unmounts it itself", logkey.Plugin,
		key.Plugin, logkey.Volume, key.ExternalID, logkey.Path, left[0].Path, "type", left[0].FSType)
	if err := k.cfg.Unmount(ctx, left[0]); err != nil {
		return fault.Note(err, string(s.Verb), entry.Describe(key))
	}
	if s.Verb == entry.Unstage {
		return fault.New(fault.Unavailable, string(s.Verb), entry.Describe(key),
			"this node has unmounted it itself; the plugin is asked once more")
	}
	return nil
}
