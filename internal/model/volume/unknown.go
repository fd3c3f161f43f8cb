package volume

import (
	"fmt"
	"strings"

	"berth/internal/base/ids"
)

// UnknownMount is a mount on a node, where only storage plugins mount, of which no record and no id file says whose it
// is; or an id file there that cannot be read.
type UnknownMount struct {
	Path string
	// Dir is the directory of the plugin, a hash of its id.
	Dir    string
	Device string // major:minor; empty: nothing is mounted, the id file cannot be read
	FSType string
}

// StagingTail is where a volume is staged below the directory of its plugin.
func StagingTail(externalID string) string { return "s/" + ids.Segment(externalID) }

// Stages reports whether it lies where a node stages a volume: its path is made of the hash of the volume's id.
func (u UnknownMount) Stages(k StagingKey) bool {
	return u.Of(k.Plugin) && strings.Contains(u.Path+"/", "/"+u.Dir+"/"+StagingTail(k.ExternalID)+"/")
}

// Of reports whether it may be a volume of a plugin.
func (u UnknownMount) Of(p ids.Plugin) bool { return u.Dir == ids.Segment(string(p)) }

// Describe says what is there and what ends it.
func (u UnknownMount) Describe(node ids.Node) string {
	what := u.FSType + " is mounted at " + u.Path
	if u.Device == "" {
		what = "the file " + u.Path + ".id, which names a mount, cannot be read"
	}
	return fmt.Sprintf("%s, and nothing says which volume it is (unmount it, or: berth node unknown-mount forget "+
		"-reason … %s %s)", what, ids.Short(node), u.Path)
}

// UnknownOf returns the first unknown mount that may be a volume of a plugin.
func UnknownOf(list []UnknownMount, p ids.Plugin) (UnknownMount, bool) {
	for _, u := range list {
		if u.Of(p) {
			return u, true
		}
	}
	return UnknownMount{}, false
}
