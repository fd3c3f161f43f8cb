package volume

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/sizes"
)

// Story is everything about one volume that a description draws on.
type Story struct {
	Volume      *Volume
	Claims      []*Claim
	Attachments []*Attachment
	OnNodes     map[ids.Node]InventoryEntry
	Unknown     map[ids.Node]UnknownMount // what may be the volume there, for all that its node knows
	Ending      map[ids.Alloc]bool        // allocs that have ended, or were told to
	// Suspended says what may not be done with the volume because the servers' state may be older than the world, and
	// the way out; empty: nothing is suspended. Resume is the command that asks again for what a restore suspended.
	Suspended, Resume string
	// Unschedulable says why no alloc can be given the volume now; empty when one can.
	Unschedulable string
	// Refused are the nodes to which the provider permanently refuses to attach it, in sentences with what ends that.
	Refused []string
}

// Describe says in sentences where a volume stands: what it does, what it waits for and since when. It is the one place
// where state becomes words; command line, API and UI show the same. One story is always given in one order: what is
// suspended, what is done with the volume, releases before other claims, attachments, nodes by id, then what nobody
// waits for: what was refused earlier, and what comes with the next use.
func Describe(s Story) []string {
	out := s.doing()
	st := s.Volume.Status
	for _, releasing := range []bool{true, false} {
		for _, c := range s.Claims {
			if s.releasing(c) == releasing {
				out = append(out, s.claim(c))
			}
		}
	}
	for _, a := range s.Attachments {
		out = append(out, DescribeAttachment(a))
	}
	out = append(out, s.Refused...)
	for _, node := range slices.Sorted(maps.Keys(s.OnNodes)) {
		if e := s.OnNodes[node]; e.LastError != "" && s.Volume.GrowthOn(e) == Grown {
			out = append(out, "on node "+ids.Short(node)+": "+e.LastError+nextTry(e.NextTry))
		}
	}
	out = append(out, st.Observed.Sentences()...)
	if st.Phase == PhaseReady && st.LastError != "" {
		out = append(out, st.LastError)
	}
	if st.NodeExpandPending {
		out = append(out, s.growing()...)
	}
	if s.Unschedulable != "" && s.Unschedulable != s.Suspended {
		out = append(out, s.Unschedulable)
	}
	return out
}

// growing tells what each node that has the volume has grown to. A node that stages it later gets the size with it.
func (s Story) growing() (out []string) {
	for _, node := range slices.Sorted(maps.Keys(s.OnNodes)) {
		if e := s.OnNodes[node]; e.Staging.Exists() {
			out = append(out, s.Volume.describeGrowth(ids.Short(node), e))
		}
	}
	if len(out) == 0 {
		out = append(out, "the file system will be grown on the node when the volume is used next")
	}
	return out
}

// doing tells what is done with the volume, and what of it waits because the servers' state was restored.
func (s Story) doing() (out []string) {
	if s.Suspended != "" {
		out = append(out, s.Suspended)
	}
	switch st := s.Volume.Status; {
	case st.Suspended:
		return append(out, fmt.Sprintf("%s: asked for before the servers' state was restored, and suspended for good; "+
			"ask again with: %s", st.Phase, s.Resume))
	case st.Phase == PhaseCreating:
		return append(out, "being created at the provider"+DescribeTry(st.LastError, st.Tries, st.NextTry))
	case st.Phase == PhaseExpanding:
		return append(out, "being expanded to at least "+sizes.Human(st.WantedMin)+s.wish()+
			DescribeTry(st.LastError, st.Tries, st.NextTry))
	case st.Phase == PhaseDeleting:
		return append(out, "being deleted at the provider"+DescribeTry(st.LastError, st.Tries, st.NextTry))
	case st.Phase == PhaseConflict, st.Phase == PhaseFailed:
		return append(out, string(st.Phase)+": "+st.LastError)
	}
	return out
}

// wish tells what was asked for while the expansion was under way.
func (s Story) wish() string {
	switch v := s.Volume; {
	case v.Spec.CapacityMin == v.Status.WantedMin:
		return ""
	case v.Spec.CapacityMin <= v.Status.Capacity:
		return ", cancelled as soon as it is known how the last call ended"
	default:
		return ", then to " + sizes.Human(v.Spec.CapacityMin)
	}
}

// releasing tells whether a claim is on its way to its end.
func (s Story) releasing(c *Claim) bool {
	return c.State == Releasing || c.State == Held && s.Ending[c.Alloc]
}

// claim tells of a claim, and of one whose alloc ends what its node waits for.
func (s Story) claim(c *Claim) string {
	if !s.releasing(c) {
		return DescribeClaim(c)
	}
	out := DescribeClaim(c)
	if c.State == Held {
		out = "releasing: " + out
	}
	if e, ok := s.OnNodes[c.Node]; ok && e.Step != "" {
		out += "; there: " + e.Step
	} else if u, ok := s.Unknown[c.Node]; ok {
		out += "; there: " + u.Describe(c.Node)
	}
	return out
}

// DescribeClaim says who holds a claim and since when, or what its release waits for.
func DescribeClaim(c *Claim) string {
	who := fmt.Sprintf("allocation %s of job %q on node %s", ids.Short(c.Alloc), c.Job, ids.Short(c.Node))
	since := c.Since.UTC().Format(time.RFC3339)
	switch c.State {
	case Held:
		return "held by " + who + " since " + since
	case Queued:
		return who + " waits for it since " + since
	}
	out := "being released by " + who + " since " + since
	if c.Reason != "" {
		out += ": " + c.Reason
	}
	return out
}

// DescribeSnapshot says what a snapshot of a volume waits for; empty: it is made, or a person has to ask again.
func DescribeSnapshot(sn *Snapshot, uid string) string {
	verb := "made"
	switch {
	case sn.Suspended:
		return ""
	case sn.Phase == PhaseDeleting:
		verb = "deleted"
	case sn.Phase != PhaseCreating:
		return ""
	}
	name := cmp.Or(sn.GivenName(uid), sn.ExternalID, sn.ID)
	return fmt.Sprintf("its snapshot %q is being %s at the provider%s", name, verb,
		DescribeTry(sn.LastError, sn.Tries, sn.NextTry))
}

// DescribeAttachment says where a volume is attached, or what attaching and detaching wait for.
func DescribeAttachment(a *Attachment) string {
	where := "node " + ids.Short(a.Node)
	switch {
	case a.Detaching:
		return "being detached from " + where + DescribeTry(a.LastError, a.Tries, a.NextTry)
	case a.Presence == Present:
		return "attached to " + where
	case a.LastError != "" && a.Tries == 0 && a.NextTry.IsZero():
		return "permanently refused at " + where + ": " + a.LastError
	}
	return "being attached to " + where + DescribeTry(a.LastError, a.Tries, a.NextTry)
}

// DescribeTry says how the last try failed, and when the next one is; empty: none has failed.
func DescribeTry(last string, tries int, next time.Time) string {
	if last == "" {
		return ""
	}
	if tries == 0 {
		return "; not begun: " + last + nextTry(next)
	}
	out := fmt.Sprintf("; try %d failed: %s", tries, last)
	return out + nextTry(next)
}

func nextTry(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return "; next try at " + at.UTC().Format(time.RFC3339)
}

// Unreleased says what a node does, or waits for, before it has released a volume, and how it failed last.
func (e *InventoryEntry) Unreleased() string {
	if e.LastError == "" {
		return e.Step
	}
	return e.Step + "; last error: " + e.LastError + nextTry(e.NextTry)
}
