package node

import (
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// lane is an entry with what lives in memory only.
type lane struct {
	entry    *Entry
	saved    *Entry // as it is on disk; nil: not there yet
	dirty    bool   // entry differs from the store
	reported bool   // the servers have the present state
	early    bool   // the intent to unstage is written, the call not begun
	grants   map[ids.Alloc]wire.Grant
	noted    map[ids.Alloc]volume.Epoch // wants that the servers have taken note of
	retries  map[Step]retry

	refused       map[ids.Alloc]error
	stageRefused  error
	expandRefused error
	status        string // what it does or waits for
	lastErr       error
	call          sync.Mutex // held during every node call of the volume: one in flight per (plugin, volume, node)
}

// retry is the pause of one step after failures; another life of the plugin ends it.
type retry struct {
	failures int
	next     time.Time
	err      error
}

func newLane(e *Entry) *lane {
	if e.Pubs == nil {
		e.Pubs = map[ids.Alloc]*Publication{}
	}
	return &lane{entry: e, grants: map[ids.Alloc]wire.Grant{}, noted: map[ids.Alloc]volume.Epoch{}, retries: map[Step]retry{},
		refused: map[ids.Alloc]error{}}
}

// touch says that the entry differs from what is on disk and from what the servers were told.
func (l *lane) touch() { l.dirty, l.reported = true, false }

// want writes the want of a grant into the entry.
func (l *lane) want(g wire.Grant) error {
	if err := l.adopt(g, argsOf(g)); err != nil {
		return err
	}
	p := l.entry.Pubs[g.Key.Alloc]
	if p == nil {
		p = &Publication{}
		l.entry.Pubs[g.Key.Alloc] = p
	}
	if p.Presence.Exists() && p.ReadOnly != g.ReadOnly {
		p.Presence = volume.Lost // a repeated call carries equal arguments: undo first
	}
	if !p.Wanted || p.Epoch != g.Epoch || p.Alias != g.Alias || p.ReadOnly != g.ReadOnly || p.Generation != g.Generation {
		p.Wanted, p.Epoch, p.Alias, p.ReadOnly, p.Generation = true, g.Epoch, g.Alias, g.ReadOnly, g.Generation
		l.touch()
	}
	if l.early {
		l.entry.Staging.Presence, l.early = volume.Present, false
		l.touch()
	}
	if g.ExpandNode && g.Capacity > l.entry.Staging.ExpandTo {
		l.entry.Staging.ExpandTo, l.expandRefused = g.Capacity, nil
		l.touch()
	}
	if old, again := l.grants[g.Key.Alloc]; !again || !argsOf(old).equal(argsOf(g)) {
		l.stageRefused = nil
		delete(l.refused, g.Key.Alloc)
		delete(l.retries, Step{Verb: Stage})
		delete(l.retries, Step{Verb: Publish, Alloc: g.Key.Alloc})
	}
	l.grants[g.Key.Alloc] = g
	return nil
}

// adopt decides what a want with other arguments than the present staging's means. Another attachment makes the staging
// lost. Within one attachment a publication keeps the arguments it was made with; another use beside a living one is
// refused, because the specification forbids it (NodePublishVolume).
func (l *lane) adopt(g wire.Grant, args Args) error {
	st := &l.entry.Staging
	if !st.Presence.Exists() || st.Args.equal(args) {
		return nil
	}
	own := l.entry.Pubs[g.Key.Alloc]
	switch {
	case st.Args.Generation != args.Generation:
	case own != nil && own.Presence.Exists():
		return nil
	case l.othersWant(g.Key.Alloc):
		return fault.WithHint(fault.New(fault.Conflict, "mount", describeKey(g.Key.StagingKey),
			"it is in use on this node with another access mode, attachment mode or other mount options"),
			"use the same modes and mount_options in every job that shares the volume")
	}
	st.Presence, l.early = volume.Lost, false
	l.touch()
	return nil
}

func (l *lane) othersWant(me ids.Alloc) bool {
	for id, p := range l.entry.Pubs {
		if id != me && p.Wanted {
			return true
		}
	}
	return false
}

// withdraw takes a want back.
func (l *lane) withdraw(alloc ids.Alloc) {
	delete(l.grants, alloc)
	delete(l.refused, alloc)
	l.stageRefused = nil
	if p := l.entry.Pubs[alloc]; p != nil && p.Wanted {
		p.Wanted = false
		l.touch()
	}
}

// forget drops publications that are over.
func (l *lane) forget() {
	for id, p := range l.entry.Pubs {
		if !p.Wanted && !p.Presence.Exists() {
			delete(l.entry.Pubs, id)
			delete(l.noted, id)
			delete(l.retries, Step{Verb: Publish, Alloc: id})
			delete(l.retries, Step{Verb: Unpublish, Alloc: id})
			l.touch()
		}
	}
}

// facts fills in what the lane itself knows.
func (l *lane) facts(f Facts, unreported bool) Facts {
	f.Granted, f.Noted, f.Refused = map[ids.Alloc]bool{}, map[ids.Alloc]bool{}, map[ids.Alloc]bool{}
	for id := range l.grants {
		f.Granted[id] = true
		epoch, noted := l.noted[id]
		f.Noted[id] = unreported || noted && l.entry.Pubs[id] != nil && epoch == l.entry.Pubs[id].Epoch
	}
	for id := range l.refused {
		f.Refused[id] = true
	}
	f.StageRefused, f.ExpandRefused = l.stageRefused != nil, l.expandRefused != nil
	return f
}

// Pauses of a step after failures.
const (
	minPause = 500 * time.Millisecond
	maxPause = time.Minute
	// newLifePause is the pause that is left when the plugin came back.
	newLifePause = 100 * time.Millisecond
	// slowRetry is the pause after an answer that only a person can mend.
	slowRetry = 5 * time.Minute
	// noRetry stands for "not before something changed".
	noRetry = 100 * 365 * 24 * time.Hour
)

// pick returns the first step that is due; without one, how long until the next is.
func (l *lane) pick(steps []Step, now time.Time) (step Step, ok bool, pause time.Duration) {
	pause = noRetry
	for _, s := range steps {
		r := l.retries[s]
		left := r.next.Sub(now)
		if left <= 0 {
			return s, true, 0
		}
		if left < pause {
			pause = left
			l.lastErr = r.err
		}
	}
	return Step{}, false, pause
}

func argsOf(g wire.Grant) Args {
	return Args{AccessMode: g.AccessMode, AttachmentMode: g.AttachmentMode, MountOptions: g.MountOptions,
		VolumeContext: g.VolumeContext, PublishContext: g.PublishContext, Generation: g.Generation}.clone()
}
