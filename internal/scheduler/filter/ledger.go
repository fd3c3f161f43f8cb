package filter

import (
	"fmt"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

// Volumes is what the state knows of storage.
type Volumes interface {
	Volume(volume.ID) *volume.Volume
	Claims(volume.ID) []*volume.Claim
	// Shortage says that a node has no room for a volume that is not attached there, or that it is refused there for
	// good for a use, or nil.
	Shortage(on ids.Node, k volume.StagingKey, use string) *plugin.Shortage
	// Holdings lists the providers' volumes that take an attach slot on a node: those with a claim, an attachment that
	// is not known to be absent, or an entry in the node's inventory.
	Holdings(ids.Node) []volume.StagingKey
	Running
}

// Running is what the state knows of those who use storage, and of those who serve it.
type Running interface {
	Alloc(ids.Alloc) *alloc.Alloc
	// Instances are the plugins' instances on a node whose word counts.
	Instances(*node.Node) []*plugin.Instance
}

// Ledger is the claims of the state plus those of the plan so far. It is the one place that decides whether a volume
// can be given to one more alloc: the scheduler asks it on a snapshot, the planner at the serial point.
type Ledger struct {
	state   Volumes
	stopped map[ids.Alloc]bool
	dropped map[volume.ClaimKey]bool
	added   map[volume.ID][]*volume.Claim
	fresh   map[ids.Alloc]bool // allocs of the plan, which the state does not know yet
	slots   map[slotKey]map[volume.StagingKey]bool
	// assumeEnded makes Admit answer as if whoever is ending had released its claims.
	assumeEnded bool
}

type slotKey struct {
	node   ids.Node
	plugin ids.Plugin
}

// NewLedger returns the ledger of an empty plan.
func NewLedger(v Volumes) *Ledger {
	return &Ledger{
		state:   v,
		stopped: map[ids.Alloc]bool{},
		dropped: map[volume.ClaimKey]bool{},
		added:   map[volume.ID][]*volume.Claim{},
		fresh:   map[ids.Alloc]bool{},
		slots:   map[slotKey]map[volume.StagingKey]bool{},
	}
}

// Stop records that the plan stops an alloc: its queued claims go, its held ones may have a successor.
func (l *Ledger) Stop(id ids.Alloc) { l.stopped[id] = true }

// Unstop takes Stop back.
func (l *Ledger) Unstop(id ids.Alloc) { delete(l.stopped, id) }

// Drop records that the plan ends a queued claim.
func (l *Ledger) Drop(k volume.ClaimKey) { l.dropped[k] = true }

// Take records a claim that the plan makes, or that a plan before it made.
func (l *Ledger) Take(c *volume.Claim) {
	l.added[c.Volume] = append(l.added[c.Volume], c)
	l.fresh[c.Alloc] = true
	if v := l.state.Volume(c.Volume); v != nil {
		l.holdings(slotKey{c.Node, v.Spec.Plugin})[v.Staging()] = true
	}
}

// AssumeEnded makes Admit answer as if whoever is ending had released its claims (true), or truthfully again (false).
func (l *Ledger) AssumeEnded(on bool) { l.assumeEnded = on }

func (l *Ledger) holdings(k slotKey) map[volume.StagingKey]bool {
	m, ok := l.slots[k]
	if !ok {
		m = map[volume.StagingKey]bool{}
		for _, h := range l.state.Holdings(k.node) {
			if h.Plugin == k.plugin {
				m[h] = true
			}
		}
		l.slots[k] = m
	}
	return m
}

// ending reports whether the alloc's use of its volumes comes to an end: stopped (in the plan too), terminal or
// unknown.
func (l *Ledger) ending(id ids.Alloc) bool {
	if l.stopped[id] {
		return true
	}
	a := l.state.Alloc(id)
	if a == nil {
		return !l.fresh[id]
	}
	return a.Terminal()
}

// live returns the claims that count: not dropped, and no queued claim of an alloc that ends.
func (l *Ledger) live(id volume.ID) []*volume.Claim {
	var out []*volume.Claim
	for _, c := range l.state.Claims(id) {
		switch {
		case l.dropped[c.Key()]:
		case c.State == volume.Queued && l.ending(c.Alloc):
		case l.assumeEnded && l.ending(c.Alloc):
		default:
			out = append(out, c)
		}
	}
	return append(out, l.added[id]...)
}

// Admission is the ledger's answer to a request: with which state the claim starts, or why it cannot be.
type Admission struct {
	State   volume.ClaimState
	Options *volume.MountOptions
	Refused *Refusal
}

// Refusal is a no that holds on every node.
type Refusal struct{ Key, Reason, Hint string }

// Admit says whether the volume can be given to one more alloc on a node with the request's modes.
func (l *Ledger) Admit(r *job.VolumeRequest, id volume.ID, on ids.Node) Admission {
	v := l.state.Volume(id)
	if refused := usable(v, r, id); refused != nil {
		return Admission{Refused: refused}
	}
	asked := &volume.Claim{
		Volume:         id,
		Node:           on,
		AccessMode:     volume.AccessMode(r.AccessMode),
		AttachmentMode: volume.AttachmentMode(r.AttachmentMode),
		MountOptions:   effectiveOptions(v, r),
		ReadOnly:       r.ReadOnly,
	}
	claims := l.live(id)
	if ok, why := volume.Compatible(l.used(v, claims), asked); !ok {
		return Admission{Refused: &Refusal{unschedulable(r.ReadOnly, id.ID), fmt.Sprintf("volume %q %s", id.ID, why),
			"wait until its present users are gone, or ask for the same modes and mount_options"}}
	}
	state, by := volume.Admit(asked, claims, l.ending)
	if state == "" {
		return Admission{Refused: l.exhausted(asked, by, claims)}
	}
	return Admission{State: state, Options: asked.MountOptions}
}

// used returns the volume in the use that its claims make of it, those of the plan included.
func (l *Ledger) used(v *volume.Volume, claims []*volume.Claim) *volume.Volume {
	switch {
	case len(claims) > 0:
		return v.UsedAs(claims[0])
	case l.assumeEnded:
		return v.Unused()
	}
	return v
}

// Refused answers what holds on every node: why the volume cannot be given to one more alloc, or nil. Where the node
// decides, a node that none of its users is on is tried before theirs.
func (l *Ledger) Refused(r *job.VolumeRequest, id volume.ID) *Refusal {
	first := l.Admit(r, id, "").Refused
	if first == nil || !volume.AccessMode(r.AccessMode).NodeDecides() {
		return first
	}
	for _, c := range l.live(id) {
		if l.Admit(r, id, c.Node).Refused == nil {
			return nil
		}
	}
	return first
}

func usable(v *volume.Volume, r *job.VolumeRequest, id volume.ID) *Refusal {
	if v == nil {
		return &Refusal{"missing CSI volume(s) " + string(id.ID),
			fmt.Sprintf("volume %q does not exist in namespace %q", id.ID, id.Namespace),
			comes(r) + "; the job is placed as soon as the volume is there"}
	}
	switch v.Status.Phase {
	case volume.PhaseFailed:
		return &Refusal{unschedulable(r.ReadOnly, id.ID),
			fmt.Sprintf("volume %q could not be made%s", id.ID, because(v.Status.LastError)),
			"mend the reason, and run the job again"}
	case volume.PhaseReady, volume.PhaseExpanding:
	default:
		return &Refusal{unschedulable(r.ReadOnly, id.ID),
			fmt.Sprintf("volume %q is %s%s", id.ID, v.Status.Phase, because(v.Status.LastError)),
			"berth volume status " + id.Typed()}
	}
	want := volume.Capability{
		AccessMode:     volume.AccessMode(r.AccessMode),
		AttachmentMode: volume.AttachmentMode(r.AttachmentMode),
	}
	if !slices.Contains(v.Spec.Capabilities, want) {
		return &Refusal{unschedulable(r.ReadOnly, id.ID),
			fmt.Sprintf("volume %q was made for %s, not for %s with %s", id.ID, capabilityList(v.Spec.Capabilities),
				want.AccessMode, want.AttachmentMode),
			"ask for one of its capabilities in the job's volume block"}
	}
	if want.AccessMode.ReaderOnly() && !r.ReadOnly {
		return &Refusal{unschedulable(r.ReadOnly, id.ID),
			fmt.Sprintf("access mode %s of volume %q is for readers only", want.AccessMode, id.ID),
			"set read_only = true in the job's volume block"}
	}
	return nil
}

// exhausted says who is in the way of a claim.
func (l *Ledger) exhausted(asked, by *volume.Claim, claims []*volume.Claim) *Refusal {
	key := fmt.Sprintf("CSI volume %s has exhausted its available writer claims", by.Volume.ID)
	if asked.ReadOnly {
		key = unschedulable(asked.ReadOnly, by.Volume.ID)
	}
	owner := fmt.Sprintf("alloc %s", ids.Short(by.Alloc))
	if by.Job != "" {
		owner += fmt.Sprintf(" of job %q", by.Job)
	}
	for _, c := range claims {
		if volume.Excludes(c, asked) && l.state.Alloc(c.Alloc) == nil && !l.fresh[c.Alloc] {
			key += fmt.Sprintf(" (still held by garbage-collected alloc %s)", ids.Short(c.Alloc))
			break
		}
	}
	verb := "holds it"
	switch by.State {
	case volume.Queued:
		verb = "waits for it already"
	case volume.Releasing:
		verb = "is releasing it"
	}
	takes := "one user at a time"
	if by.AccessMode == volume.SingleNodeReader {
		takes = "users on one node at a time"
	}
	reason := fmt.Sprintf("volume %q takes %s as %s: %s %s on node %s", by.Volume.ID, takes, by.AccessMode, owner, verb,
		ids.Short(by.Node))
	if !by.Since.IsZero() {
		reason += " since " + by.Since.UTC().Format(time.RFC3339)
	}
	return &Refusal{key, reason, "stop that alloc's job; this one is placed by itself when the volume is free"}
}

// unschedulable is the key that clients of the API know for a volume that cannot be used as asked.
func unschedulable(readOnly bool, id ids.Volume) string {
	if readOnly {
		return fmt.Sprintf("CSI volume %s is unschedulable or has exhausted its available reader claims", id)
	}
	return fmt.Sprintf("CSI volume %s is unschedulable or is read-only", id)
}

func because(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

func capabilityList(list []volume.Capability) string {
	s := ""
	for i, c := range list {
		if i > 0 {
			s += " or "
		}
		s += string(c.AccessMode) + " with " + string(c.AttachmentMode)
	}
	if s == "" {
		return "nothing"
	}
	return s
}

// effectiveOptions are the request's mount options where it sets them, else the volume's.
func effectiveOptions(v *volume.Volume, r *job.VolumeRequest) *volume.MountOptions {
	if r.AttachmentMode == string(volume.BlockDevice) {
		return nil
	}
	out := volume.MountOptions{}
	if o := v.Spec.MountOptions; o != nil {
		out = *o
	}
	if o := r.MountOptions; o != nil {
		if o.FSType != "" {
			out.FSType = o.FSType
		}
		if o.MountFlags != nil {
			out.MountFlags = o.MountFlags
		}
	}
	if out.FSType == "" && len(out.MountFlags) == 0 {
		return nil
	}
	return &out
}
