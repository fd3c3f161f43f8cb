package node

import (
	"bytes"
	"os"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

func stagingTail(externalID string) string { return "s/" + ids.Segment(externalID) }

func targetParentTail(externalID string, alloc ids.Alloc) string {
	return "p/" + ids.Segment(externalID, string(alloc))
}

// targetName is the target below its parent: the plugin makes and removes it.
const targetName = "m"

// ensureDir makes a directory 0700 with its parents below base, which must exist or be creatable.
func ensureDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fault.Wrap(err, fault.Internal, "create", path)
	}
	return nil
}

// writeIDFile writes the id file of a staging, or of an alloc's publication, unless it is there already.
func (k *Keeper) writeIDFile(path string, e *Entry, alloc ids.Alloc) error {
	f := idFile{Key: e.Key, Volume: e.Volume, Staging: e.Staging, Alloc: alloc}
	f.Staging.Presence = volume.Uncertain
	f.Staging.Mounts = nil
	f.Staging.ExpandTo = 0
	f.Staging.ExpandedTo = 0
	if alloc != "" {
		p := *e.Pubs[alloc]
		p.Presence = volume.Uncertain
		f.Pub = &p
	}
	data, err := k.cfg.Codec.Encode(f)
	if err != nil {
		return err
	}
	name := path + ".id"
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return hostfs.WriteFileSync(name, data, 0o600)
}
