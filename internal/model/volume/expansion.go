package volume

import (
	"strings"
	"time"

	"berth/internal/base/sizes"
)

// ExpansionRefused begins the last error of a volume that its provider refused permanently to expand.
const ExpansionRefused = "last expansion refused: "

// GrowthRefused begins the last error of a node on which the file system stays as small as it is for as long as it is
// used: the plugin refused to grow it so.
const GrowthRefused = "the file system is not grown before the volume is staged anew, or its plugin has restarted: "

// Expand begins the expansion that the spec asks for; a volume that is large enough is ready. The arguments of a call
// that is under way, or whose end is unknown, must not change: call it only where none is (Status.ExpandSettled).
func (v *Volume) Expand(now time.Time) {
	st := &v.Status
	if st.Phase != PhaseExpanding {
		st.Since = now.UTC()
	}
	st.Tries = 0
	st.NextTry = time.Time{}
	st.LastError = ""
	if v.Spec.CapacityMin <= st.Capacity {
		st.Phase = PhaseReady
		st.WantedMin = 0
		st.WantedMax = 0
		return
	}
	st.Phase = PhaseExpanding
	st.WantedMin = v.Spec.CapacityMin
	st.WantedMax = v.Spec.CapacityMax
	st.ExpandSettled = true
	st.Generation++
}

// Expanded stores that the provider made the volume larger. What was asked for meanwhile is begun.
func (v *Volume) Expanded(capacity int64, now time.Time) {
	st := &v.Status
	asked := st.WantedMin
	if capacity == 0 {
		capacity = max(st.Capacity, asked)
	}
	st.Capacity = capacity
	if v.Spec.CapacityMin == asked {
		v.endExpansion("")
		return
	}
	v.Expand(now)
}

// RefuseExpansion gives an expansion up that the provider refused permanently: nothing goes on asking for its size, and
// the reason is kept. Another size that was asked for meanwhile is tried.
func (v *Volume) RefuseExpansion(reason string, now time.Time) {
	if v.rewished() {
		v.Expand(now)
		return
	}
	v.Spec.CapacityMin = min(v.Spec.CapacityMin, v.Status.Capacity)
	v.endExpansion(ExpansionRefused + reason)
}

// SettleExpansion stores that the last call of the expansion did certainly nothing, and that none is under way. What
// was asked for meanwhile takes its place.
func (v *Volume) SettleExpansion(now time.Time) {
	v.Status.ExpandSettled = true
	if v.rewished() {
		v.Expand(now)
	}
}

// rewished tells whether another size was asked for than the one under way.
func (v *Volume) rewished() bool {
	return v.Spec.CapacityMin != v.Status.WantedMin || v.Spec.CapacityMax != v.Status.WantedMax
}

func (v *Volume) endExpansion(text string) {
	st := &v.Status
	st.Phase = PhaseReady
	st.WantedMin = 0
	st.WantedMax = 0
	st.Tries = 0
	st.NextTry = time.Time{}
	st.LastError = text
}

// Growth is whether what a node has of a volume has taken the volume's new size.
type Growth string

// Growths.
const (
	Grown         Growth = ""        // or there is nothing to grow
	GrowthPending Growth = "pending" // the node is asked, or tries it again
	GrowthAtRest  Growth = "refused" // not before the volume is staged anew there, or its plugin has restarted
)

// GrowthOn tells whether a node has grown what it has of the volume.
func (v *Volume) GrowthOn(e InventoryEntry) Growth {
	switch {
	case !v.Status.NodeExpandPending || !e.Staging.Exists() || e.ExpandedTo >= v.Status.Capacity:
		return Grown
	case strings.HasPrefix(e.LastError, GrowthRefused):
		return GrowthAtRest
	}
	return GrowthPending
}

// describeGrowth says what the file system on a node has grown to, or what it waits for.
func (v *Volume) describeGrowth(node string, e InventoryEntry) string {
	size := sizes.Human(v.Status.Capacity)
	if v.GrowthOn(e) == Grown {
		return "the file system on node " + node + " has grown to " + sizes.Human(e.ExpandedTo)
	}
	out := "the provider's volume has " + size + "; the file system on node " + node + " follows"
	if e.LastError == "" {
		return out + ": the node has not reported yet that it has grown"
	}
	return out + ": " + e.LastError + nextTry(e.NextTry)
}
