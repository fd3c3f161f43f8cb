package holding

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// Looks find out who holds a device or a mount: a Finder's.
type Looks interface {
	Free(context.Context, entry.Device) (entry.Sighting, error)
	Look(ctx context.Context, d entry.Device, paths ...string) (entry.Sighting, error)
}

// Search asks on behalf of stagings and publications that do not end, and keeps what was found until they have.
type Search struct {
	looks Looks
	log   *slog.Logger
	mu    sync.Mutex
	found map[volume.StagingKey]*found
}

// found is who keeps what cannot be undone of a volume.
type found struct {
	pinned  bool // nothing but the device keeps the staging
	held    bool // the device, when it was looked at last
	holders []volume.Holder
	reason  string // why the step failed after which they were looked for
	looks   int    // for that reason
	next    time.Time
}

// lookPause is how long nobody is looked for again after a look for the same reason.
var lookPause = retry.Backoff{Min: 5 * time.Second, Max: 2 * time.Minute}

// NewSearch returns a search that has found nothing yet.
func NewSearch(looks Looks, log *slog.Logger) *Search {
	return &Search{looks: looks, log: log, found: map[volume.StagingKey]*found{}}
}

// Absent lets no unstaging that the plugin calls done count as done while somebody has the device. What is still
// mounted here is verified later, and is no foreign holder.
func (s *Search) Absent(ctx context.Context, e *entry.Entry) error {
	if e == nil || e.Staging.Device == (entry.Device{}) {
		return nil
	}
	table, err := hostfs.ReadTable()
	if err != nil || len(table.Beneath(e.Staging.HostPath)) > 0 {
		return err
	}
	seen, err := s.looks.Free(ctx, e.Staging.Device)
	err = entry.Absent(e, seen, err)
	s.mu.Lock()
	s.of(e.Key).pinned = err != nil
	s.mu.Unlock()
	return err
}

// StageAgain lets nothing be staged again beside an alloc that uses it in another mount namespace. A mount that is
// still there is the staging itself.
func (s *Search) StageAgain(ctx context.Context, e *entry.Entry) error {
	if e.Staging.Device == (entry.Device{}) {
		return nil
	}
	table, err := hostfs.ReadTable()
	if err != nil || len(table.Beneath(e.Staging.HostPath)) > 0 {
		return err
	}
	seen, err := s.looks.Look(ctx, e.Staging.Device)
	return entry.StageAgain(e, seen, err)
}

// HeldBy adds to the failure of an undoing step who holds what it undoes. They are looked for when it failed before:
// once for each new reason, and then less and less often.
func (s *Search) HeldBy(ctx context.Context, e *entry.Entry, step entry.Step, before int, err error) error {
	if e == nil || step.Making() || step.Verb == entry.Expand || before == 0 || e.PresenceOf(step) == nil {
		return err
	}
	if path, _ := evidence.Traces(e, step); path != "" && s.due(e.Key, string(step.Verb)+": "+err.Error()) {
		var d entry.Device
		if step.Verb == entry.Unstage {
			d = e.Staging.Device // a publication's is the staging's, rightly
		}
		s.look(ctx, e.Key, d, path)
		if step.Verb == entry.Unstage {
			s.pin(e)
		}
	}
	if who := volume.HeldBy(s.Holders(e.Key)); who != "" {
		return fmt.Errorf("%w; %s", err, who)
	}
	return err
}

// due reports whether to look now.
func (s *Search) due(key volume.StagingKey, reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, now := s.of(key), time.Now()
	if f.reason != reason {
		f.reason, f.looks = reason, 0
		f.next = now
	}
	return !now.Before(f.next)
}

// look keeps what a look finds, also one that failed: a table of processes is never whole.
func (s *Search) look(ctx context.Context, key volume.StagingKey, d entry.Device, path string) {
	seen, err := s.looks.Look(ctx, d, path)
	if err != nil {
		s.log.Debug("not all who may hold a volume were looked at", logkey.Volume, key.ExternalID, logkey.Error, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.of(key)
	f.looks++
	f.next = time.Now().Add(lookPause.Jittered(f.looks))
	f.holders = seen.Holders
	f.held = seen.Held
}

// pin notes whether nothing but the device of a staging is kept: also where its plugin says itself that it cannot
// release that.
func (s *Search) pin(e *entry.Entry) {
	table, err := hostfs.ReadTable()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.of(e.Key)
	f.pinned = f.held && err == nil && len(table.Beneath(e.Staging.HostPath)) == 0
}

// of returns what was found of a volume, new when there is nothing. The caller holds the lock.
func (s *Search) of(key volume.StagingKey) *found {
	f := s.found[key]
	if f == nil {
		f = &found{}
		s.found[key] = f
	}
	return f
}

// Holders are those found last.
func (s *Search) Holders(key volume.StagingKey) []volume.Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.found[key]; f != nil {
		return slices.Clone(f.holders)
	}
	return nil
}

// Pinned says by whom nothing but the device of a volume is kept; empty: it is not.
func (s *Search) Pinned(key volume.StagingKey) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.found[key]
	switch {
	case f == nil || !f.pinned:
		return ""
	case len(f.holders) == 0:
		return "held by somebody whom this node has not found"
	}
	return volume.HeldBy(f.holders)
}

// Forget drops what was found: the step that failed has worked.
func (s *Search) Forget(key volume.StagingKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.found, key)
}
