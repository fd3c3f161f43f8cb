package entry

import (
	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// Verb is one kind of step. Each is one call to the plugin.
type Verb string

// The verbs, in the order in which they are preferred: undo first, then make.
const (
	Unpublish Verb = "unpublish"
	Unstage   Verb = "unstage"
	Stage     Verb = "stage"
	Expand    Verb = "expand"
	Publish   Verb = "publish"
)

// Step is one legal next call.
type Step struct {
	Verb  Verb
	Alloc ids.Alloc // of Unpublish and Publish
}

// Making reports whether the step makes something that is undone later.
func (s Step) Making() bool { return s.Verb == Stage || s.Verb == Publish }

// Facts are what the world says, read anew for each pass.
type Facts struct {
	// Armed: this node knows what the servers want, so undoing is safe.
	Armed bool
	// Gone holds the allocs whose processes are proven gone for good.
	Gone map[ids.Alloc]bool
	// Idle holds the allocs of which no process lives now and none starts before its volume is back.
	Idle map[ids.Alloc]bool
	// Orphans holds the allocs about which no servers decide: what they have is kept, and stands in others' way.
	Orphans map[ids.Alloc]bool
	// Requested holds the allocs that asked in this agent run: only they bring the secrets that a call may need.
	Requested map[ids.Alloc]bool
	// Acknowledged holds the allocs whose want the servers have acknowledged. What they have not heard of is never
	// made: the node's silence about it would else be taken for a release.
	Acknowledged map[ids.Alloc]bool
	// Refused holds the publications that the plugin refused permanently; they are not tried again until wanted anew.
	Refused map[ids.Alloc]bool
	// StageRefused: the plugin refused the staging for good.
	StageRefused bool
	// Unknown: in the plugin's directory a target is mounted that nobody can name: it may be made from this staging.
	Unknown bool
	// ExpandRefused: the plugin refuses to grow the volume while it is used so.
	ExpandRefused bool
}

// Wait says why an entry that has not converged has no legal step.
type Wait string

// Reasons for waiting, for people.
const (
	WaitNothing   Wait = ""
	WaitArmed     Wait = "waiting until the servers have said which allocations belong here"
	WaitProcesses Wait = "waiting for the allocation's processes to end"
	WaitRequest   Wait = "waiting for the allocation to ask for its volume again"
	WaitServers   Wait = "waiting for the servers to acknowledge the request"
	WaitRefused   Wait = "refused by the plugin"
	WaitUnknown   Wait = "waiting for a mount of the plugin to go that nothing names (see: berth node status)"
	WaitDead      Wait = "waiting to mount the volume anew until it is not used any more by "
	WaitOrphan    Wait = "waiting for an allocation that the servers do not know to end on this node (see: berth " +
		"node orphans list)"
)

// Next lists every step that is legal now, best first; no step and WaitNothing means converged. It is the whole law of
// stagings and publications on a node:
//
//   - what is not wanted, or lost, is undone; nothing is undone before the node is armed, and nothing is unpublished
//     before the processes of its alloc are gone;
//   - the staging is undone when no publication is left and nothing is wanted, or when it is lost; and only when no
//     mount is left that may be a publication and has no name;
//   - from a staging whose file system is dead nothing is made; it is lost when no publication of it is left;
//   - the staging is made before any publication, and a publication is made when wanted and not present;
//   - nothing is made that the servers have not acknowledged, nor for an orphan, nor while an orphan may use the volume
//     in a way that excludes it;
//   - uncertain counts as present for undoing and as absent for making; lost stays lost until it is undone.
func Next(e *Entry, f Facts) (steps []Step, wait Wait) {
	steps, wait = undo(e, f)
	if e.stagingLost() {
		return steps, wait
	}
	made, makeWait := build(e, f)
	if wait == WaitNothing {
		wait = makeWait
	}
	return append(steps, made...), wait
}

func undo(e *Entry, f Facts) (steps []Step, wait Wait) {
	stagingLost := e.stagingLost()
	left := false
	for _, id := range e.Allocs() {
		p := e.Pubs[id]
		if !p.Presence.Exists() {
			continue
		}
		left = true
		if p.Wanted && p.Presence != volume.Lost && !stagingLost {
			continue
		}
		switch {
		case !f.Armed:
			wait = WaitArmed
		case !f.over(id, p):
			wait = WaitProcesses
		default:
			steps = append(steps, Step{Verb: Unpublish, Alloc: id})
		}
	}
	if left || !e.Staging.Presence.Exists() || e.Wanted() && !stagingLost {
		return steps, wait
	}
	switch {
	case !f.Armed:
		return steps, WaitArmed
	case f.Unknown:
		return steps, WaitUnknown
	}
	return append(steps, Step{Verb: Unstage}), wait
}

// Awaited names an alloc whose processes keep its publication from being undone; empty: none does.
func Awaited(e *Entry, f Facts) ids.Alloc {
	lost := e.stagingLost()
	for _, id := range e.Allocs() {
		p := e.Pubs[id]
		stays := p.Wanted && p.Presence != volume.Lost && !lost
		if p.Presence.Exists() && !stays && !f.over(id, p) {
			return id
		}
	}
	return ""
}

// over reports that no process of an alloc uses its publication, nor will before that is made anew.
func (f Facts) over(id ids.Alloc, p *Publication) bool { return f.Gone[id] || p.Wanted && f.Idle[id] }

func build(e *Entry, f Facts) (steps []Step, wait Wait) {
	switch {
	case !e.Wanted():
		return nil, WaitNothing
	case e.dead():
		return nil, e.waitDead()
	}
	if e.Staging.Presence != volume.Present {
		switch {
		case f.StageRefused:
			return nil, WaitRefused
		case e.Requester(Facts{Requested: f.Requested, Acknowledged: f.Requested}) == "":
			return nil, WaitRequest
		case e.Requester(f) == "":
			return nil, WaitServers
		}
		return []Step{{Verb: Stage}}, WaitNothing
	}
	grow := e.Staging.ExpandTo > e.Staging.ExpandedTo && !f.ExpandRefused
	if grow && !e.Staging.Skip {
		steps = append(steps, Step{Verb: Expand})
	}
	for _, id := range e.Allocs() {
		p := e.Pubs[id]
		switch {
		case !p.Wanted || p.Presence == volume.Present || p.Presence == volume.Lost:
		case f.Refused[id]:
			wait = WaitRefused
		case f.Orphans[id] || e.keptFromOthers(id, f):
			wait = WaitOrphan
		case !f.Requested[id]:
			wait = WaitRequest
		case !f.Acknowledged[id]:
			wait = WaitServers
		default:
			steps = append(steps, Step{Verb: Publish, Alloc: id})
		}
	}
	if grow && e.Staging.Skip && e.PresentPublication() != "" {
		steps = append(steps, Step{Verb: Expand})
	}
	return steps, wait
}

// keptFromOthers reports whether an orphan may use the volume in a way that excludes the alloc's: the servers that
// permitted the alloc do not know of the orphan.
func (e *Entry) keptFromOthers(id ids.Alloc, f Facts) bool {
	for Other, p := range e.Pubs {
		if Other != id && p.Presence.Exists() && f.Orphans[Other] && volume.Excludes(e.claimOf(Other), e.claimOf(id)) {
			return true
		}
	}
	return false
}

// claimOf is the claim that a publication answers, as far as the law of exclusion reads it.
func (e *Entry) claimOf(id ids.Alloc) *volume.Claim {
	return &volume.Claim{
		Alloc:      id,
		AccessMode: e.Staging.Args.AccessMode,
		ReadOnly:   e.Pubs[id].ReadOnly,
	}
}

// Requester names one alloc that wants the volume, has asked for it in this agent run, and whose want the servers have
// acknowledged.
func (e *Entry) Requester(f Facts) ids.Alloc {
	for _, id := range e.Allocs() {
		if e.Pubs[id].Wanted && f.Requested[id] && f.Acknowledged[id] {
			return id
		}
	}
	return ""
}

// PresentPublication names one publication that is present, for plugins that do not stage.
func (e *Entry) PresentPublication() ids.Alloc {
	for _, id := range e.Allocs() {
		if e.Pubs[id].Presence == volume.Present {
			return id
		}
	}
	return ""
}

// Intend writes the intent of a step into the entry and returns what the presence was before it. What is lost stays
// lost while it is undone: a call whose end is unknown must be repeated, never be taken for a reason to make it again.
// The last unpublishing writes the intent of the unstaging that follows it, so that both share one transaction.
func Intend(e *Entry, s Step) volume.Presence {
	target := e.PresenceOf(s)
	if target == nil {
		return volume.Present
	}
	before := *target
	if before != volume.Lost || s.Making() {
		*target = volume.Uncertain
	}
	if s.Verb == Unpublish && e.last(s.Alloc) && !e.Wanted() && e.Staging.Presence == volume.Present {
		e.Staging.Presence = volume.Uncertain
	}
	return before
}

// last reports whether no other publication than the alloc's can exist.
func (e *Entry) last(alloc ids.Alloc) bool {
	for id, p := range e.Pubs {
		if id != alloc && p.Presence.Exists() {
			return false
		}
	}
	return true
}

// Outcome is what a call came to.
type Outcome uint8

const (
	Worked  Outcome = iota // the plugin said OK and the mount table agrees as far as it can
	Refused                // the plugin said no, or was never asked: this call did nothing
	Unknown                // the end of the call is not known
	Missing                // the plugin said OK and the mount table disagrees
	Other                  // the plugin has made it otherwise: undo first
)

// Conclude writes the end of a step into the entry. before is what Intend returned.
func Conclude(e *Entry, s Step, before volume.Presence, o Outcome) {
	target := e.PresenceOf(s)
	if target == nil {
		return
	}
	switch {
	case o == Worked && s.Making():
		*target = volume.Present
	case o == Worked:
		*target = volume.Absent
	case o == Refused && (!s.Making() || before == volume.Absent):
		*target = before // nothing new was begun, and this call did nothing
	case (o == Missing || o == Other) && s.Making():
		*target = volume.Lost // undo, then make again
	case !s.Making() && before == volume.Lost:
		*target = volume.Lost
	default:
		*target = volume.Uncertain
	}
}

// PresenceOf is what is known of the thing that a step makes or undoes; nil: the step is about none.
func (e *Entry) PresenceOf(s Step) *volume.Presence {
	switch s.Verb {
	case Stage, Unstage:
		return &e.Staging.Presence
	case Publish, Unpublish:
		return &e.Pubs[s.Alloc].Presence
	}
	return nil
}
