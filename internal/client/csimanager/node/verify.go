package node

import (
	"context"
	"errors"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

// verifyStep compares the plugin's answer with the mount table and turns both into an outcome.
func (k *Keeper) verifyStep(key volume.StagingKey, s entry.Step, err error) (entry.Outcome, evidence.Observed, error) {
	var local notSent
	switch {
	case errors.As(err, &local):
		return entry.Refused, evidence.Observed{}, err
	case csi.RetryOf(err) == volume.RetryAfterUndo:
		return entry.Other, evidence.Observed{}, err
	case err != nil && (s.Making() || s.Verb == entry.Expand || csi.RetryOf(err) != volume.RetryVerify):
		if csi.FinalityOf(err) == csi.Final {
			return entry.Refused, evidence.Observed{}, err
		}
		return entry.Unknown, evidence.Observed{}, err
	}
	e := k.Snapshot(key)
	if e == nil {
		return entry.Unknown, evidence.Observed{}, err
	}
	if s.Verb == entry.Expand || e.Staging.Skip && (s.Verb == entry.Stage || s.Verb == entry.Unstage) {
		return entry.Worked, evidence.Observed{}, nil
	}
	table, terr := hostfs.ReadTable()
	if terr != nil {
		return entry.Unknown, evidence.Observed{}, terr
	}
	switch s.Verb {
	case entry.Stage:
		return entry.Worked, evidence.Observed{
			Mounts: evidence.Beneath(table, e.Staging.HostPath),
			Own:    evidence.Mounts(table, e.Staging.HostPath),
			Block:  evidence.Block(table, e.Staging.HostPath),
		}, nil
	case entry.Publish:
		return evidence.Published(e, s.Alloc, table)
	}
	path, ours := evidence.Traces(e, s)
	return k.verifyUndone(err, table, path, ours...)
}

// removeUnmade removes what was prepared for a first call that was refused. Left behind, its id file would name a mount
// at the next start that nobody has made. It reports whether nothing is there: a mount proves that the call did
// something, whatever the plugin said.
func (k *Keeper) removeUnmade(key volume.StagingKey, s entry.Step) (nothing bool) {
	e := k.Snapshot(key)
	if e == nil || e.PresenceOf(s) == nil {
		return true
	}
	path, ours := evidence.Traces(e, s)
	table, err := hostfs.ReadTable()
	if err != nil || path == "" {
		return err == nil
	}
	o, _, err := k.verifyUndone(nil, table, path, ours...)
	if o != entry.Worked {
		k.cfg.Log.Warn("what was refused is there", logkey.Op, s.Verb, logkey.Path, path, logkey.Error, err)
	}
	return o == entry.Worked
}

// verifyUndone checks that nothing is mounted at or beneath a path, and then removes what is ours around it. callErr is
// nil, or a not-found answer that the mount table decides: what the plugin does not know and nobody sees is not there.
// What is left in a directory is kept and reported; it does not hold up the release, because nothing is mounted there.
func (k *Keeper) verifyUndone(
	callErr error, table *hostfs.Table, path string, remove ...string,
) (entry.Outcome, evidence.Observed, error) {
	if left := table.Beneath(path); len(left) > 0 {
		if callErr != nil {
			return entry.Unknown, evidence.Observed{}, callErr
		}
		return entry.Unknown, evidence.Observed{},
			fault.New(fault.Unavailable, "undo", path, "the plugin answered OK but "+left[0].Path+" is still mounted")
	}
	for _, p := range remove {
		if err := table.RemoveEmpty(p); err != nil {
			k.cfg.Log.Warn("what a plugin left behind is kept", logkey.Path, p, logkey.Error, err)
		}
	}
	return entry.Worked, evidence.Observed{}, nil
}

// Verify compares what is present with the mount table, says what is lost, and has it remade.
func (k *Keeper) Verify() {
	if err := k.verify(); err != nil {
		k.cfg.Log.Error("the mount table cannot be read; publications are not verified", logkey.Error, err)
		return
	}
	k.reportVictims()
	if err := k.lookForUnknown(); err != nil {
		k.cfg.Log.Error("it is not known whether something is mounted that has no record", logkey.Error, err)
	}
	k.markAll()
}

// victim is an alloc whose volume is gone.
type victim struct {
	alloc         ids.Alloc
	alias, reason string
}

// reportVictims says whose tasks must be restarted. What was found before Run is reported in it: until then, the node's
// allocs may not have been restored.
func (k *Keeper) reportVictims() {
	k.mu.Lock()
	victims := k.victims
	k.victims = nil
	k.mu.Unlock()
	for _, v := range victims {
		k.cfg.Allocs.VolumeLost(v.alloc, v.alias, v.reason)
	}
}

// verify finds what is gone, or is something else than what was recorded: it is Lost. A staging cannot be verified on
// the way up; what was mounted in it after the plugin's OK must stay.
func (k *Keeper) verify() error {
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, vs := range k.vols {
		for _, v := range vs.missing(table) {
			k.cfg.Log.Warn("a volume is no longer mounted", logkey.Volume, key.ExternalID, logkey.Alloc, v, "reason",
				vs.status.text)
			if p := vs.entry.Pubs[v]; p != nil && p.Wanted {
				k.victims = append(k.victims, victim{v, p.Alias, vs.status.text})
				k.changed.Notify()
			}
		}
	}
	return nil
}

// missing turns what the table does not show any more into Lost and names the allocs that have lost their volume. The
// caller holds the lock.
func (vs *volumeState) missing(table *hostfs.Table) []ids.Alloc {
	why, victims := evidence.Missing(vs.entry, table)
	if why != "" {
		vs.says(why, true)
		vs.touch()
	}
	return victims
}

// Mounted reports whether the alloc's publication is verified present right now: the gate before a task starts
// (invariant I17), on a file system that lives by that table. Before it starts again, that is asked itself, too.
func (k *Keeper) Mounted(ctx context.Context, key volume.PublicationKey, again bool) error {
	e := k.Snapshot(key.StagingKey)
	if e == nil || e.Pubs[key.Alloc] == nil || e.Pubs[key.Alloc].Presence != volume.Present {
		return k.notPublished(key)
	}
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	p := e.Pubs[key.Alloc]
	dev, _, err := evidence.Target(table, p.HostPath, e.Staging.Args.AttachmentMode == volume.BlockDevice)
	if err != nil || dev != p.Device {
		return fault.New(fault.NotReady, "use", entry.Describe(key.StagingKey),
			"the target "+p.HostPath+" is not mounted as recorded")
	}
	return k.lives(ctx, key, again)
}

// Snapshot is a copy of what is recorded of a volume; nil: nothing is.
func (k *Keeper) Snapshot(key volume.StagingKey) *entry.Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil {
		return nil
	}
	return vs.entry.Clone()
}
