package filter

import (
	"fmt"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/volume"
)

// maxMissing bounds how many volumes that are not there are named.
const maxMissing = 20

// missing are the volumes that no alloc of a group finds, each once, in the order of indexes; more counts the rest.
type missing struct {
	ids  []ids.Volume
	more int
}

func (m *missing) String() string {
	names := make([]string, len(m.ids))
	for i, id := range m.ids {
		names[i] = fmt.Sprintf("%q", id)
	}
	if m.more > 0 {
		names = append(names, fmt.Sprintf("%d more", m.more))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// absent names all volumes at once that the allocs of the group lack, if they are several: whoever makes them need not
// come back for each. The key is of the first that this alloc lacks, as clients know it.
func (c *CSI) absent(of *job.VolumeRequest, first volume.ID) *Refusal {
	if c.missing == nil { // once per group: the state does not change meanwhile
		c.missing = &missing{}
		seen := map[ids.Volume]bool{}
		for i := range max(c.group.Count, 1) {
			for _, w := range Wants(first.Namespace, c.group, i) {
				switch {
				case seen[w.ID.ID], c.ledger.state.Volume(w.ID) != nil:
				case len(c.missing.ids) < maxMissing:
					c.missing.ids = append(c.missing.ids, w.ID.ID)
				default:
					c.missing.more++
				}
				seen[w.ID.ID] = true
			}
		}
	}
	if len(c.missing.ids) < 2 {
		return nil
	}
	return &Refusal{"missing CSI volume(s) " + string(first.ID),
		fmt.Sprintf("volumes %s do not exist in namespace %q", c.missing, first.Namespace),
		"for each: " + comes(of) + "; the job is placed as soon as they are there"}
}

// comes is how a volume that is not there comes to be.
func comes(r *job.VolumeRequest) string {
	if r.Create != nil {
		return "run the job again: its registration makes the volume"
	}
	return "berth volume create FILE or berth volume register FILE"
}
