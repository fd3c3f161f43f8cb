package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/ids"
)

// Leftovers are what lies beneath a data directory whose store does not say which node it is of.
type Leftovers struct {
	Copy    ids.Node // that the copy of the identity beside the store names; empty: it names none
	Damaged bool     // there is a copy, and it cannot be read
	// Living are the allocs whose shims answer, with the node that was named when their tasks were launched; empty:
	// none was. A shim that answers is of this boot.
	Living  map[ids.Alloc]ids.Node
	Mounts  []string // what is mounted for volumes and allocs
	IDFiles int      // files that name a volume that was mounted
	Allocs  int      // directories of allocs
	Volumes int      // directories in which a bundled plugin keeps volumes
}

// Verdict is what a node with a store that knows nothing does.
type Verdict string

// Verdicts.
const (
	Begins  Verdict = "begins"  // nothing of a node lies here: it is a new one
	Taken   Verdict = "taken"   // it is the node of the copy, whose tasks run
	Refused Verdict = "refused" // a person decides
)

// Decide is the law of a lost store. The copy of the identity may have come with a copy of the directory, from another
// machine or from long ago; only processes that live here and now, and were started for that very node, prove that it
// is of this place and this boot.
func (l *Leftovers) Decide() (v Verdict, why string) {
	for _, id := range slices.Sorted(maps.Keys(l.Living)) {
		if node := l.Living[id]; node != "" && l.Copy != "" && node != l.Copy {
			return Refused, fmt.Sprintf("allocation %s, which runs, is of node %s, while client.identity names node %s",
				ids.Short(id), ids.Short(node), ids.Short(l.Copy))
		}
	}
	there := l.list()
	switch {
	case l.Damaged:
		return Refused, "client.identity, the copy of what it knew, is damaged"
	case there == "":
		return Begins, ""
	case len(l.Living) > 0 && l.Copy != "":
		return Taken, ""
	case len(l.Living) > 0:
		return Refused, "client.identity, the copy of what it knew, is gone, too, while there are " + there
	}
	return Refused, "no task runs that would prove it; there are " + there
}

// list names what there is for people; empty: nothing.
func (l *Leftovers) list() string {
	var out []string
	if l.Copy != "" {
		out = append(out, "the identity of node "+string(l.Copy)+" in client.identity")
	}
	count := func(n int, one, many string) {
		switch {
		case n == 1:
			out = append(out, "1 "+one)
		case n > 1:
			out = append(out, fmt.Sprintf("%d %s", n, many))
		}
	}
	count(len(l.Living), "allocation that runs", "allocations that run")
	if len(l.Mounts) > 0 {
		out = append(out, "something mounted at "+l.Mounts[0])
	}
	count(l.IDFiles, "file that names a mounted volume", "files that name mounted volumes")
	count(l.Allocs, "directory of an allocation", "directories of allocations")
	count(l.Volumes, "directory of a bundled plugin's volumes", "directories of bundled plugins' volumes")
	return strings.Join(out, ", ")
}
