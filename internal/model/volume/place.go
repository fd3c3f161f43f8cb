package volume

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/model/plugin"
)

// OwnsNothing tells of a record that has no volume at the provider, or whose volume is another record's.
func (v *Volume) OwnsNothing() bool {
	return v.Status.Phase == PhaseFailed || v.Status.Phase == PhaseConflict && !v.Status.Misplaced
}

// Elsewhere holds where a provider made a volume against where it was required (CSI spec, CreateVolume): it must be
// accessible from one of the places that were required, or from a part of one. The sentence names the difference; it is
// empty where there is none, or nothing was required or answered.
func Elsewhere(required, answered []plugin.Topology) string {
	if len(required) == 0 || len(answered) == 0 {
		return ""
	}
	for _, want := range required {
		for _, got := range answered {
			if want.Within(got) || got.Within(want) {
				return ""
			}
		}
	}
	return fmt.Sprintf("the provider made the volume accessible from %s; required is %s; nobody is given it, "+
		"delete it and create it anew", places(answered), places(required))
}

// places names topologies, one after the other.
func places(list []plugin.Topology) string {
	var out []string
	for _, t := range list {
		var segments []string
		for _, key := range slices.Sorted(maps.Keys(t.Segments)) {
			segments = append(segments, key+"="+t.Segments[key])
		}
		out = append(out, strings.Join(segments, ","))
	}
	return strings.Join(out, " or ")
}
