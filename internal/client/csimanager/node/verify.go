package node

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/csimanager"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
)

// verifyStep compares the plugin's word with the mount table and turns both into an outcome.
func (k *Keeper) verifyStep(key volume.StagingKey, s Step, err error, conn *csimanager.Connection) (outcome, error) {
	table, terr := hostfs.ReadTable()
	if terr != nil {
		return unknown, terr
	}
	e := k.snapshot(key)
	if e == nil {
		return unknown, err
	}
	switch s.Verb {
	case Publish:
		if err == nil {
			return k.verifyPublished(key, e, s.Alloc, table)
		}
	case Unpublish:
		p := e.Pubs[s.Alloc]
		if err == nil || csi.RetryOf(err) == csi.RetryVerify {
			return verifyUndone(err, table, p.HostPath, p.HostPath, filepath.Dir(p.HostPath)+".id", filepath.Dir(p.HostPath))
		}
	case Unstage:
		if e.Staging.Skip {
			return worked, nil
		}
		if err == nil || csi.RetryOf(err) == csi.RetryVerify {
			return verifyUndone(err, table, e.Staging.HostPath, e.Staging.HostPath+".id", e.Staging.HostPath)
		}
	}
	switch {
	case err == nil:
		return worked, nil
	case csi.FinalityOf(err) == csi.Final:
		return refused, err
	}
	return unknown, err
}

// verifyPublished checks the target and records what is mounted there, through which later checks recognise it.
func (k *Keeper) verifyPublished(key volume.StagingKey, e *Entry, alloc ids.Alloc, table *hostfs.Table) (outcome, error) {
	p := e.Pubs[alloc]
	block := e.Staging.Args.AttachmentMode == volume.BlockDevice
	dev, readOnly, err := seen(table, p.HostPath, block)
	if err != nil {
		return missing, fault.WithHint(fault.Wrap(err, fault.Unavailable, "publish", describeKey(key)),
			"the plugin answered OK; look at its logs")
	}
	if readOnly && !p.ReadOnly && !e.Staging.Args.AccessMode.ReaderOnly() && !block {
		return missing, fault.New(fault.Unavailable, "publish", describeKey(key), "the plugin mounted it read-only although writing was asked for")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.vols[key]; l != nil && l.entry.Pubs[alloc] != nil {
		l.entry.Pubs[alloc].Device, l.entry.Pubs[alloc].SeenReadOnly = dev, readOnly
	}
	return worked, nil
}

// seen reads what is at a target: the device number of the file system that is mounted there, or of the block device.
func seen(table *hostfs.Table, path string, block bool) (device string, readOnly bool, err error) {
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
// nil, or a not-found answer that the mount table decides.
func verifyUndone(callErr error, table *hostfs.Table, path string, remove ...string) (outcome, error) {
	if left := table.Beneath(path); len(left) > 0 {
		if callErr != nil {
			return unknown, callErr
		}
		return unknown, fault.New(fault.Unavailable, "undo", path, "the plugin answered OK but "+left[0].Path+" is still mounted")
	}
	if err := clearPath(remove...); err != nil {
		return unknown, err
	}
	return worked, nil
}

// Verify compares every present publication with the mount table: what is gone, or is something else than what was
// recorded, is Lost. A staging cannot be verified on the way up; the publications speak for it.
func (k *Keeper) Verify() error {
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, l := range k.vols {
		for id, p := range l.entry.Pubs {
			if p.Presence != volume.Present {
				continue
			}
			dev, _, err := seen(table, p.HostPath, l.entry.Staging.Args.AttachmentMode == volume.BlockDevice)
			if err == nil && dev == p.Device {
				continue
			}
			k.cfg.Log.Error("a published volume is no longer mounted", logkey.Volume, key.ExternalID, logkey.Alloc, id, logkey.Path, p.HostPath, "found", dev)
			p.Presence, l.dirty, l.reported = volume.Lost, true, false
		}
	}
	k.changed.Notify()
	return nil
}

// Mounted reports whether the alloc's publication is verified present right now: the gate before a task starts (I17).
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
	dev, _, err := seen(table, p.HostPath, e.Staging.Args.AttachmentMode == volume.BlockDevice)
	if err != nil || dev != p.Device {
		return fault.New(fault.NotReady, "use", describeKey(key.StagingKey), "the target "+p.HostPath+" is not mounted as recorded")
	}
	return nil
}

// Strangers lists mounts below a plugin's base directory that no entry knows. They are reported and left alone, for
// nobody knows whose data they are.
func (k *Keeper) Strangers(hostBase string) ([]string, error) {
	table, err := hostfs.ReadTable()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{hostBase: true}
	k.mu.Lock()
	for _, l := range k.vols {
		known[l.entry.Staging.HostPath] = true
		for _, p := range l.entry.Pubs {
			known[p.HostPath] = true
		}
	}
	k.mu.Unlock()
	var out []string
	for _, m := range table.Beneath(hostBase) {
		if !known[m.Path] && !known[filepath.Dir(m.Path)] {
			if _, err := os.Lstat(filepath.Dir(m.Path)); err == nil {
				out = append(out, m.Path)
			}
		}
	}
	return out, nil
}

func (k *Keeper) snapshot(key volume.StagingKey) *Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.vols[key]
	if l == nil {
		return nil
	}
	return l.entry.clone()
}

func grantedSet(l *lane) map[ids.Alloc]bool {
	out := make(map[ids.Alloc]bool, len(l.grants))
	for id := range l.grants {
		out[id] = true
	}
	return out
}
