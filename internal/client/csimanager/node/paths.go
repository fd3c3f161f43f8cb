package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// MaxPath is what every plugin must accept for staging and target paths (CSI spec, NodeStageVolume), in bytes.
const MaxPath = 128

// pathTail is the longest path below a plugin's base directory: "/p/" and a segment and "/m".
const pathTail = 3 + 24 + 2

// HostBase is the directory of one plugin below the agent's data directory, the same for every instance of it.
func HostBase(dataDir string, plugin ids.Plugin) string {
	return filepath.Join(dataDir, "csi", ids.Segment(string(plugin)))
}

// CheckDataDir refuses a data directory whose derived paths would exceed MaxPath and names the longest that works.
func CheckDataDir(dataDir string) error {
	limit := MaxPath - len("/csi/") - 24 - pathTail
	if n := len(filepath.Clean(dataDir)); n > limit {
		return fault.WithHint(fault.New(fault.Invalid, "use", "data_dir "+dataDir,
			fmt.Sprintf("its path has %d bytes, so paths of volumes would exceed the %d bytes that storage plugins must accept", n, MaxPath)),
			fmt.Sprintf("choose a data_dir of at most %d bytes", limit))
	}
	return nil
}

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
	f.Staging.Presence, f.Staging.Mounts, f.Staging.ExpandTo, f.Staging.ExpandedTo = volume.Uncertain, nil, 0, 0
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
