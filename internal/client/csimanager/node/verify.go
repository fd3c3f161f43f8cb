package node

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

// observed is what the mount table showed after a call.
type observed struct {
	device   string   // of a publication
	readOnly bool     // of a publication
	mounts   []string // of a staging
}

// verifyStep compares the plugin's answer with the mount table and turns both into an outcome.
func (k *Keeper) verifyStep(key volume.StagingKey, s Step, err error) (outcome, observed, error) {
	var local notSent
	switch {
	case errors.As(err, &local):
		return refused, observed{}, err
	case csi.RetryOf(err) == volume.RetryAfterUndo:
		return other, observed{}, err
	case err != nil && (s.making() || s.Verb == Expand || csi.RetryOf(err) != volume.RetryVerify):
		if csi.FinalityOf(err) == csi.Final {
			return refused, observed{}, err
		}
		return unknown, observed{}, err
	}
	e := k.snapshot(key)
	if e == nil {
		return unknown, observed{}, err
	}
	if s.Verb == Expand || e.Staging.Skip && (s.Verb == Stage || s.Verb == Unstage) {
		return worked, observed{}, nil
	}
	table, terr := hostfs.ReadTable()
	if terr != nil {
		return unknown, observed{}, terr
	}
	switch s.Verb {
	case Stage:
		return worked, observed{mounts: beneath(table, e.Staging.HostPath)}, nil
	case Publish:
		return verifyPublished(e, s.Alloc, table)
	}
	path, ours := traces(e, s)
	return k.verifyUndone(err, table, path, ours...)
}

// traces are where a staging or a publication is, and what of it is removed when it is not, in this order.
func traces(e *Entry, s Step) (path string, ours []string) {
	if s.Verb == Publish || s.Verb == Unpublish {
		path = e.Pubs[s.Alloc].HostPath
		parent := filepath.Dir(path)
		return path, []string{path, parent + ".id", parent}
	}
	path = e.Staging.HostPath
	return path, []string{path + ".id", path}
}

// removeUnmade removes what was prepared for a first call that was refused. Left behind, its id file would name a mount
// at the next start that nobody has made. It reports whether nothing is there: a mount proves that the call did
// something, whatever the plugin said.
func (k *Keeper) removeUnmade(key volume.StagingKey, s Step) (nothing bool) {
	e := k.snapshot(key)
	if e == nil || e.presenceOf(s) == nil {
		return true
	}
	path, ours := traces(e, s)
	table, err := hostfs.ReadTable()
	if err != nil || path == "" {
		return err == nil
	}
	o, _, err := k.verifyUndone(nil, table, path, ours...)
	if o != worked {
		k.cfg.Log.Warn("what was refused is there", logkey.Op, s.Verb, logkey.Path, path, logkey.Error, err)
	}
	return o == worked
}

// beneath lists what is mounted at or beneath a path in a form that can be compared later.
func beneath(table *hostfs.Table, path string) []string {
	var out []string
	for _, m := range table.Beneath(path) {
		out = append(out, m.Path+" "+m.Device)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// verifyPublished checks the target and returns what is mounted there, by which later checks recognise it.
func verifyPublished(e *Entry, alloc ids.Alloc, table *hostfs.Table) (outcome, observed, error) {
	p := e.Pubs[alloc]
	block := e.Staging.Args.AttachmentMode == volume.BlockDevice
	dev, readOnly, err := observe(table, p.HostPath, block)
	if err != nil {
		return missing, observed{}, fault.WithHint(fault.Wrap(err, fault.Unavailable, "publish", describeKey(e.Key)),
			"the plugin answered OK; look at its logs")
	}
	if readOnly && !p.ReadOnly && !e.Staging.Args.AccessMode.ReaderOnly() && !block {
		return missing, observed{},
			fault.New(fault.Unavailable, "publish", describeKey(e.Key),
				"the plugin mounted it read-only although writing was asked for")
	}
	return worked, observed{device: dev, readOnly: readOnly}, nil
}

// observe reads what is at a target: the device number of the file system that is mounted there, or of the block
// device.
func observe(table *hostfs.Table, path string, block bool) (device string, readOnly bool, err error) {
	m, mounted := table.At(path)
	if !block {
		if !mounted {
			return "", false, fmt.Errorf("nothing is mounted at %s", path)
		}
		return m.Device, m.ReadOnly, nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", false, fmt.Errorf("look at %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", false, fmt.Errorf("%s is not a block device", path)
	}
	return fmt.Sprintf("b%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), mounted && m.ReadOnly, nil
}

// verifyUndone checks that nothing is mounted at or beneath a path, and then removes what is ours around it. callErr is
// nil, or a not-found answer that the mount table decides: what the plugin does not know and nobody sees is not there.
// What is left in a directory is kept and reported; it does not hold up the release, because nothing is mounted there.
func (k *Keeper) verifyUndone(
	callErr error, table *hostfs.Table, path string, remove ...string,
) (outcome, observed, error) {
	if left := table.Beneath(path); len(left) > 0 {
		if callErr != nil {
			return unknown, observed{}, callErr
		}
		return unknown, observed{},
			fault.New(fault.Unavailable, "undo", path, "the plugin answered OK but "+left[0].Path+" is still mounted")
	}
	for _, p := range remove {
		if err := hostfs.RemoveEmpty(p); err != nil {
			k.cfg.Log.Warn("what a plugin left behind is kept", logkey.Path, p, logkey.Error, err)
		}
	}
	return worked, observed{}, nil
}

// Verify compares what is present with the mount table, says what is lost, and has it remade.
func (k *Keeper) Verify() {
	if err := k.verify(); err != nil {
		k.cfg.Log.Error("the mount table cannot be read; publications are not verified", logkey.Error, err)
		return
	}
	k.markAll()
}

// verify finds what is gone, or is something else than what was recorded: it is Lost. A staging cannot be verified on
// the way up; what was mounted in it after the plugin's OK must stay.
func (k *Keeper) verify() error {
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	type victim struct {
		alloc         ids.Alloc
		alias, reason string
	}
	var victims []victim
	k.mu.Lock()
	for key, vs := range k.vols {
		for _, v := range vs.missing(table) {
			k.cfg.Log.Warn("a volume is no longer mounted", logkey.Volume, key.ExternalID, logkey.Alloc, v, "reason",
				vs.status)
			if p := vs.entry.Pubs[v]; p != nil && p.Wanted {
				victims = append(victims, victim{v, p.Alias, vs.status})
			}
		}
	}
	k.mu.Unlock()
	if len(victims) > 0 {
		k.changed.Notify()
	}
	for _, v := range victims {
		k.cfg.Allocs.VolumeLost(v.alloc, v.alias, v.reason)
	}
	return nil
}

// missing turns what the table does not show any more into Lost and names the allocs that have lost their volume. The
// caller holds the lock.
func (vs *volumeState) missing(table *hostfs.Table) (victims []ids.Alloc) {
	e := vs.entry
	if e.Staging.Presence == volume.Present && !e.Staging.Skip {
		there := beneath(table, e.Staging.HostPath)
		for _, m := range e.Staging.Mounts {
			if !slices.Contains(there, m) {
				e.Staging.Presence = volume.Lost
				path, _, _ := strings.Cut(m, " ")
				vs.status = "the mount of the staging at " + path + " is gone"
				vs.touch()
				break
			}
		}
	}
	for _, id := range e.allocs() {
		p := e.Pubs[id]
		if p.Presence != volume.Present {
			continue
		}
		dev, _, err := observe(table, p.HostPath, e.Staging.Args.AttachmentMode == volume.BlockDevice)
		switch {
		case err != nil:
			vs.status = err.Error()
		case dev != p.Device:
			vs.status = fmt.Sprintf("%s shows device %s, recorded is %s", p.HostPath, dev, p.Device)
		case e.Staging.Presence != volume.Lost:
			continue
		}
		p.Presence = volume.Lost
		victims = append(victims, id)
		vs.touch()
	}
	return victims
}

// Mounted reports whether the alloc's publication is verified present right now: the gate before a task starts
// (invariant I17).
func (k *Keeper) Mounted(key volume.PublicationKey) error {
	e := k.snapshot(key.StagingKey)
	if e == nil || e.Pubs[key.Alloc] == nil || e.Pubs[key.Alloc].Presence != volume.Present {
		return fault.New(fault.NotReady, "use", describeKey(key.StagingKey), "it is not published for this allocation")
	}
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	p := e.Pubs[key.Alloc]
	dev, _, err := observe(table, p.HostPath, e.Staging.Args.AttachmentMode == volume.BlockDevice)
	if err != nil || dev != p.Device {
		return fault.New(fault.NotReady, "use", describeKey(key.StagingKey),
			"the target "+p.HostPath+" is not mounted as recorded")
	}
	return nil
}

func (k *Keeper) snapshot(key volume.StagingKey) *Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	vs := k.vols[key]
	if vs == nil {
		return nil
	}
	return vs.entry.clone()
}
