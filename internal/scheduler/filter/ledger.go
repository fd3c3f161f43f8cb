package filter

import (
	"fmt"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

// Volumes is what the state knows of storage.
type Volumes interface {
	Volume(volume.ID) *volume.Volume
	Claims(volume.ID) []*volume.Claim
	Plugin(ids.Plugin) *plugin.Record
	// Holdings lists the volumes that take an attach slot on a node: those with a claim, an attachment that is not known
	// to be absent, or an entry in the node's inventory.
	Holdings(ids.Node) []Holding
	Alloc(ids.Alloc) *alloc.Alloc
}

// Holding is a volume that takes one of a plugin's attach slots on a node.
type Holding struct {
	Plugin ids.Plugin
	Volume volume.ID
}

// Ledger is the claims of the state plus those of the plan so far. It is the one place that decides whether a volume
// can be given to one more alloc: the scheduler asks it on a snapshot, the planner at the serial point.
type Ledger struct {
	state   Volumes
	stopped map[ids.Alloc]bool
	dropped map[volume.ClaimKey]bool
	added   map[volume.ID][]*volume.Claim
	fresh   map[ids.Alloc]bool // allocs of the plan, which the state does not know yet
	slots   map[slotKey]map[volume.ID]bool
	// assumeEnded makes Admit answer as if whoever is ending had let go already.
	assumeEnded bool
}

type slotKey struct {
	node   ids.Node
	plugin ids.Plugin
}

// NewLedger returns the ledger of an empty plan.
func NewLedger(v Volumes) *Ledger {
	return &Ledger{state: v, stopped: map[ids.Alloc]bool{}, dropped: map[volume.ClaimKey]bool{},
		added: map[volume.ID][]*volume.Claim{}, fresh: map[ids.Alloc]bool{}, slots: map[slotKey]map[volume.ID]bool{}}
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
		l.holdings(slotKey{c.Node, v.Spec.Plugin})[c.Volume] = true
	}
}

// AssumeEnded makes Admit answer as if whoever is ending had let go already (true), or truthfully again (false).
func (l *Ledger) AssumeEnded(on bool) { l.assumeEnded = on }

func (l *Ledger) holdings(k slotKey) map[volume.ID]bool {
	m, ok := l.slots[k]
	if !ok {
		m = map[volume.ID]bool{}
		for _, h := range l.state.Holdings(k.node) {
			if h.Plugin == k.plugin {
				m[h.Volume] = true
			}
		}
		l.slots[k] = m
	}
	return m
}

// ending reports whether the alloc's use of its volumes comes to an end: stopped (in the plan too), terminal or unknown.
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

// Grant is the answer to a request: with which state the claim starts, or why it cannot be.
type Grant struct {
	State   volume.ClaimState
	Options *volume.MountOptions
	Refused *Refusal
}

// Refusal is a no that holds on every node.
type Refusal struct{ Key, Reason, Hint string }

// Admit says whether the volume can be given to one more alloc with the request's modes.
func (l *Ledger) Admit(r *job.VolumeRequest, id volume.ID) Grant {
	v := l.state.Volume(id)
	if refused := usable(v, r, id); refused != nil {
		return Grant{Refused: refused}
	}
	g := Grant{State: volume.Held, Options: effectiveOptions(v, r)}
	claims := l.live(id)
	if refused := l.compatible(v, claims, r, g.Options); refused != nil {
		return Grant{Refused: refused}
	}
	rivals := exclusiveRivals(claims, r)
	if len(rivals) == 0 {
		return g
	}
	for _, c := range rivals {
		if c.State == volume.Queued || !l.ending(c.Alloc) {
			return Grant{Refused: l.exhausted(r, c, rivals)}
		}
	}
	g.State = volume.Queued
	return g
}

// exclusiveRivals returns the claims beside which the requested use cannot be: all of them for a mode that publishes
// once, the writers for a writer of multi-node-single-writer.
func exclusiveRivals(claims []*volume.Claim, r *job.VolumeRequest) []*volume.Claim {
	mode := volume.AccessMode(r.AccessMode)
	if mode.SingleNode() {
		return claims
	}
	if mode != volume.MultiNodeSingleWriter || r.ReadOnly {
		return nil
	}
	var out []*volume.Claim
	for _, c := range claims {
		if !c.ReadOnly {
			out = append(out, c)
		}
	}
	return out
}

func usable(v *volume.Volume, r *job.VolumeRequest, id volume.ID) *Refusal {
	if v == nil {
		return &Refusal{"missing CSI volume(s) " + string(id.ID),
			fmt.Sprintf("volume %q does not exist in namespace %q", id.ID, id.Namespace),
			"berth volume create or berth volume register; the job is placed as soon as the volume is there"}
	}
	switch v.Status.Phase {
	case volume.PhaseReady, volume.PhaseExpanding:
	default:
		return &Refusal{unschedulable(r, id.ID), fmt.Sprintf("volume %q is %s%s", id.ID, v.Status.Phase, because(v.Status.LastError)),
			"berth volume status " + string(id.ID)}
	}
	want := volume.Capability{AccessMode: volume.AccessMode(r.AccessMode), AttachmentMode: volume.AttachmentMode(r.AttachmentMode)}
	if !slices.Contains(v.Spec.Capabilities, want) {
		return &Refusal{unschedulable(r, id.ID),
			fmt.Sprintf("volume %q was made for %s, not for %s with %s", id.ID, capabilityList(v.Spec.Capabilities), want.AccessMode, want.AttachmentMode),
			"ask for one of its capabilities in the job's volume block"}
	}
	if want.AccessMode.ReaderOnly() && !r.ReadOnly {
		return &Refusal{unschedulable(r, id.ID), fmt.Sprintf("access mode %s of volume %q is for readers only", want.AccessMode, id.ID),
			"set read_only = true in the job's volume block"}
	}
	return nil
}

// compatible holds the request against the volume's current mode and mount options, which its first claim set.
func (l *Ledger) compatible(v *volume.Volume, claims []*volume.Claim, r *job.VolumeRequest, opts *volume.MountOptions) *Refusal {
	access, attach, current := v.Status.AccessMode, v.Status.AttachmentMode, v.Status.MountOptions
	if access == "" || l.assumeEnded && len(claims) == 0 {
		if len(claims) == 0 {
			return nil
		}
		access, attach, current = claims[0].AccessMode, claims[0].AttachmentMode, claims[0].MountOptions
	}
	switch {
	case access != volume.AccessMode(r.AccessMode) || attach != volume.AttachmentMode(r.AttachmentMode):
		return &Refusal{unschedulable(r, v.ID.ID),
			fmt.Sprintf("volume %q is in use as %s with %s, the job asks for %s with %s", v.ID.ID, access, attach, r.AccessMode, r.AttachmentMode),
			"wait until its present users are gone, or ask for the same modes"}
	case !sameOptions(current, opts):
		return &Refusal{unschedulable(r, v.ID.ID), fmt.Sprintf("volume %q is in use with other mount options", v.ID.ID),
			"wait until its present users are gone, or ask for the same mount_options"}
	}
	return nil
}

func (l *Ledger) exhausted(r *job.VolumeRequest, by *volume.Claim, rivals []*volume.Claim) *Refusal {
	kind := "writer"
	if r.ReadOnly {
		kind = "reader"
	}
	key := fmt.Sprintf("CSI volume %s has exhausted its available %s claims", by.Volume.ID, kind)
	if kind == "reader" {
		key = unschedulable(r, by.Volume.ID)
	}
	owner := fmt.Sprintf("alloc %s", ids.Short(by.Alloc))
	if by.Job != "" {
		owner += fmt.Sprintf(" of job %q", by.Job)
	}
	for _, c := range rivals {
		if l.state.Alloc(c.Alloc) == nil && !l.fresh[c.Alloc] {
			key += fmt.Sprintf(" (still held by garbage-collected alloc %s)", ids.Short(c.Alloc))
			break
		}
	}
	verb := "holds it"
	switch by.State {
	case volume.Queued:
		verb = "waits for it already"
	case volume.Releasing:
		verb = "is letting go of it"
	}
	reason := fmt.Sprintf("volume %q takes one user at a time as %s: %s %s on node %s", by.Volume.ID, by.AccessMode, owner, verb, ids.Short(by.Node))
	if !by.Since.IsZero() {
		reason += " since " + by.Since.UTC().Format(time.RFC3339)
	}
	return &Refusal{key, reason, "stop that alloc's job; this one is placed by itself when the volume is free"}
}

// unschedulable is the key that clients of the API know for a volume that cannot be used as asked.
func unschedulable(r *job.VolumeRequest, id ids.Volume) string {
	if r.ReadOnly {
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

// sameOptions compares as sets: two spellings of one wish are one wish.
func sameOptions(a, b *volume.MountOptions) bool {
	var x, y volume.MountOptions
	if a != nil {
		x = *a
	}
	if b != nil {
		y = *b
	}
	fx, fy := slices.Sorted(slices.Values(x.MountFlags)), slices.Sorted(slices.Values(y.MountFlags))
	return x.FSType == y.FSType && slices.Equal(fx, fy)
}
