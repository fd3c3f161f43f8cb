package evidence

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// Missing turns what the table does not show any more, or shows otherwise than it was recorded, into Lost. It says what
// that is, and names the allocs that have lost their volume. What was mounted in a staging after the plugin's OK must
// stay.
func Missing(e *entry.Entry, table *hostfs.Table) (why string, victims []ids.Alloc) {
	if e.Staging.Presence == volume.Present && !e.Staging.Skip {
		there := Beneath(table, e.Staging.HostPath)
		for _, m := range e.Staging.Mounts {
			if !slices.Contains(there, m) {
				e.Staging.Presence = volume.Lost
				path, _, _ := strings.Cut(m, " ")
				why = "the mount of the staging at " + path + " is gone"
				break
			}
		}
	}
	for _, id := range e.Allocs() {
		p := e.Pubs[id]
		if p.Presence != volume.Present {
			continue
		}
		dev, _, err := Target(table, p.HostPath, e.Staging.Args.AttachmentMode == volume.BlockDevice)
		switch {
		case err != nil:
			why = err.Error()
		case dev != p.Device:
			why = fmt.Sprintf("%s shows device %s, recorded is %s", p.HostPath, dev, p.Device)
		case e.Staging.Presence != volume.Lost:
			continue
		}
		p.Presence = volume.Lost
		victims = append(victims, id)
	}
	return why, victims
}
