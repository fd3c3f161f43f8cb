package csimanager

import (
	"fmt"
	"path/filepath"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// MaxPath is what every plugin must accept for staging and target paths (CSI spec, NodeStageVolume), in bytes.
const MaxPath = 128

// pathTail is the longest path below a plugin's base directory: "/p/" and a segment and "/m".
const pathTail = 3 + 24 + 2

// HostBase is the directory of one plugin below the agent's data directory, the same for every instance of it.
func HostBase(dataDir string, plugin ids.Plugin) string {
	return filepath.Join(dataDir, "csi", ids.Segment(string(plugin)))
}

// SocketName is what every plugin's socket is called in its directory (CSI spec, "path ends in .sock").
const SocketName = "csi.sock"

// SocketDir is the directory of the socket of a task that is a plugin.
func SocketDir(dataDir string, id ids.Alloc, task string) string {
	return filepath.Join(dataDir, "csi", "sock", ids.Segment(string(id), task))
}

// CheckDataDir refuses a data directory whose derived paths would exceed MaxPath and names the longest that works.
func CheckDataDir(dataDir string) error {
	limit := MaxPath - len("/csi/") - 24 - pathTail
	if n := len(filepath.Clean(dataDir)); n > limit {
		return fault.WithHint(fault.New(fault.Invalid, "use", "data_dir "+dataDir,
			fmt.Sprintf(
				"its path has %d bytes, so paths of volumes would exceed the %d bytes that storage plugins must accept",
				n, MaxPath)),
			fmt.Sprintf("choose a data_dir of at most %d bytes", limit))
	}
	return nil
}
