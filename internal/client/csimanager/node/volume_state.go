package node

import (
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/retry"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/slot"
	"berth/internal/model/volume"
)

// volumeState is an entry with what lives in memory only.
type volumeState struct {
	entry           *entry.Entry
	saved           *entry.Entry // as it is on disk; nil: not there
	record          entry.Record // how well the disk and the servers know entry
	changes         uint64       // of the entry, counted
	unstageIntended bool         // the intent to unstage is written, the call not begun
	requests        map[ids.Alloc]csimanager.MountRequest
	acknowledged    map[ids.Alloc]volume.Epoch // wants that the servers know of
	servers         knownTo
	retries         map[entry.Step]attempts

	refused       map[ids.Alloc]error
	stageRefused  error
	expandRefused error
	flight        flight
	status        status
	lastErr       error
	call          slot.Slot // one call in flight per (plugin, volume, node)
}

// knownTo is what the servers know of an entry.
type knownTo struct {
	entry volume.InventoryEntry
	// abandoned: a use was ended by another than its alloc, so that none reports its end.
	abandoned bool
}

// status is what a volume does or waits for.
type status struct {
	text       string
	obstructed bool         // it is what stands in the way
	steps      []entry.Step // that the facts asked for when they were read last
}

// flight is the call that is being made.
type flight struct {
	verb  entry.Verb  // empty: none is
	since time.Time   // when it began
	late  []entry.Run // that have not answered a call before this one
}

// attempts are the failures of one step, and its pause; a new connection to the plugin ends it.
type attempts struct {
	failures int
	next     time.Time
	err      error
}

func newVolumeState(e *entry.Entry) *volumeState {
	if e.Pubs == nil {
		e.Pubs = map[ids.Alloc]*entry.Publication{}
	}
	return &volumeState{
		entry:        e,
		requests:     map[ids.Alloc]csimanager.MountRequest{},
		acknowledged: map[ids.Alloc]volume.Epoch{},
		retries:      map[entry.Step]attempts{},
		refused:      map[ids.Alloc]error{},
	}
}

// version is one state of an entry. What was decided on another one is decided anew.
type version struct {
	of      *volumeState
	changes uint64
}

// version returns the present one. The caller holds the lock; vs may be nil.
func (vs *volumeState) version() version {
	if vs == nil {
		return version{}
	}
	return version{of: vs, changes: vs.changes}
}

// on lets the record follow an event.
func (vs *volumeState) on(e entry.Event) { vs.record = vs.record.On(e) }

// touch says that the entry changed.
func (vs *volumeState) touch() {
	vs.changes++
	vs.on(entry.Changed)
}

// want writes the want of a grant into the entry.
func (vs *volumeState) want(g csimanager.MountRequest) error {
	if err := vs.adopt(g, argsOf(g)); err != nil {
		return err
	}
	p := vs.entry.Pubs[g.Key.Alloc]
	if p == nil {
		p = &entry.Publication{}
		vs.entry.Pubs[g.Key.Alloc] = p
	}
	if p.Presence.Exists() && p.ReadOnly != g.ReadOnly {
		p.Presence = volume.Lost // a repeated call carries equal arguments: undo first
	}
	if !p.Wanted || p.Epoch != g.Epoch || p.Alias != g.Alias || p.ReadOnly != g.ReadOnly ||
		p.Generation != g.Generation {
		p.Wanted = true
		p.Epoch = g.Epoch
		p.Alias = g.Alias
		p.ReadOnly = g.ReadOnly
		p.Generation = g.Generation
		vs.servers.abandoned = false
		vs.touch()
	}
	if p.Received.IsZero() && !g.Received.IsZero() {
		vs.touch() // a record from before there were marks is stamped once
	}
	vs.owned(g.Provider)
	p.Received = g.Received // a newer stamp is written with the next change: the older one still tells the truth
	if vs.unstageIntended {
		vs.entry.Staging.Presence, vs.unstageIntended = volume.Present, false
		vs.touch()
	}
	if g.ExpandNode && g.Capacity > vs.entry.Staging.ExpandTo {
		vs.entry.Staging.ExpandTo = g.Capacity
		vs.growsAnew()
		vs.touch()
	}
	if old, again := vs.requests[g.Key.Alloc]; !again || !argsOf(old).Equal(argsOf(g)) {
		vs.stageRefused = nil
		delete(vs.refused, g.Key.Alloc)
		delete(vs.retries, entry.Step{Verb: entry.Stage})
		delete(vs.retries, entry.Step{Verb: entry.Publish, Alloc: g.Key.Alloc})
	}
	vs.requests[g.Key.Alloc] = g
	return nil
}

// owned takes over who has the volume, as the servers say: it was handed over, or nothing of it is here yet.
func (vs *volumeState) owned(provider string) {
	if provider != "" && provider != vs.entry.Provider {
		vs.entry.Provider = provider
		vs.touch()
	}
}

// adopt acts on what a want with these arguments means beside the present staging.
func (vs *volumeState) adopt(g csimanager.MountRequest, args entry.Args) error {
	switch vs.entry.Fit(g.Key.Alloc, args) {
	case entry.FitsBeside, entry.Fits:
	case entry.Clashes:
		return fault.WithHint(fault.New(fault.Conflict, "mount", entry.Describe(g.Key.StagingKey),
			"it is in use on this node with another access mode, attachment mode or other mount options"),
			"use the same modes and mount_options in every job that shares the volume")
	case entry.Remade:
		vs.entry.Staging.Presence, vs.unstageIntended = volume.Lost, false
		vs.touch()
	}
	return nil
}

// says notes what the volume does or waits for, and whether that stands in the way.
func (vs *volumeState) says(text string, obstructed bool) {
	vs.status.text, vs.status.obstructed = text, obstructed
}

// withdraw takes a want back that its alloc does not: nobody is there to say that it is over.
func (vs *volumeState) withdraw(alloc ids.Alloc) {
	delete(vs.requests, alloc)
	delete(vs.refused, alloc)
	delete(vs.acknowledged, alloc) // should it be wanted again: by then the servers may have dropped it
	vs.stageRefused = nil
	if p := vs.entry.Pubs[alloc]; p != nil && p.Wanted {
		p.Wanted = false
		vs.servers.abandoned = true
		vs.touch()
	}
}

// dropOver drops publications that are over.
func (vs *volumeState) dropOver() {
	for id, p := range vs.entry.Pubs {
		if !p.Wanted && !p.Presence.Exists() {
			delete(vs.entry.Pubs, id)
			delete(vs.retries, entry.Step{Verb: entry.Publish, Alloc: id})
			delete(vs.retries, entry.Step{Verb: entry.Unpublish, Alloc: id})
			vs.touch()
		}
	}
}

// facts fills in what the state itself knows.
func (vs *volumeState) facts(f entry.Facts) entry.Facts {
	f.Requested = map[ids.Alloc]bool{}
	f.Acknowledged = map[ids.Alloc]bool{}
	f.Refused = map[ids.Alloc]bool{}
	for id := range vs.requests {
		f.Requested[id] = true
		epoch, ok := vs.acknowledged[id]
		f.Acknowledged[id] = ok && vs.entry.Pubs[id] != nil && epoch == vs.entry.Pubs[id].Epoch
	}
	for id := range vs.refused {
		f.Refused[id] = true
	}
	f.StageRefused, f.ExpandRefused = vs.stageRefused != nil, vs.expandRefused != nil
	return f
}

// stepPause is how long a step rests after failures.
var stepPause = retry.Backoff{Min: 500 * time.Millisecond, Max: time.Minute}

// Pauses of a step that do not grow.
const (
	// newConnectionPause is the pause that is left when the plugin came back.
	newConnectionPause = 100 * time.Millisecond
	// slowRetry is the pause after an answer that only a person can mend.
	slowRetry = 5 * time.Minute
	// noRetry stands for "not before something changed".
	noRetry = 100 * 365 * 24 * time.Hour
)

// progress describes the call under way: whoever waits for it is to know of whom, and since when. wrong is what is
// wrong with the plugin while the call goes on.
func (vs *volumeState) progress(of ids.Plugin, wrong error) string {
	status := fmt.Sprintf("%s in progress, plugin %q was asked at %s and has not answered yet", vs.flight.verb, of,
		vs.flight.since.UTC().Format(time.RFC3339))
	if wrong != nil {
		return status + ": " + wrong.Error()
	}
	return status + "; see berth plugin status " + string(of)
}

// pick returns the first step that is due; without one, how long until the next is.
func (vs *volumeState) pick(steps []entry.Step, now time.Time) (step entry.Step, ok bool, pause time.Duration) {
	pause = noRetry
	for _, s := range steps {
		r := vs.retries[s]
		left := r.next.Sub(now)
		if left <= 0 {
			return s, true, 0
		}
		if left < pause {
			pause = left
			vs.lastErr = r.err
		}
	}
	return entry.Step{}, false, pause
}

func argsOf(g csimanager.MountRequest) entry.Args {
	return entry.Args{
		AccessMode:     g.AccessMode,
		AttachmentMode: g.AttachmentMode,
		MountOptions:   g.MountOptions,
		VolumeContext:  g.VolumeContext,
		PublishContext: g.PublishContext,
		Generation:     g.Generation,
		MountGroup:     g.MountGroup,
	}.Clone()
}
