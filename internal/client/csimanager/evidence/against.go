package evidence

import (
	"fmt"

	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// Against says what stands against the word that nothing is left of a volume; underWay: a call of it is.
func Against(e *entry.Entry, underWay bool, table *hostfs.Table) string {
	st := &e.Staging
	switch {
	case e.Wanted():
		return "an allocation on this node wants it"
	case e.Published():
		return "a publication of it is not undone yet; that is tried again by itself"
	case underWay:
		return "a call of it is under way"
	case st.Presence == volume.Present:
		return "it is staged, and its unstaging was not tried yet"
	case !st.Presence.Exists():
		return "nothing of it is held any more"
	}
	if left := table.Beneath(st.HostPath); len(left) > 0 {
		return fmt.Sprintf("%s is mounted at %s", left[0].FSType, left[0].Path)
	}
	return ""
}
