// Package inventory owns a stand-in for the servers in tests of a node alone: it takes the node's reports over as the
// replicated state does and acknowledges them, or loses them when a test says so. Only tests import it.
package inventory

import (
	"context"
	"errors"
	"slices"
	"sync"

	"berth/internal/base/ids"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Servers are what one node reports to. They outlive the node's agent runs. Use New.
type Servers struct {
	mu      sync.Mutex
	head    uint64
	entries map[volume.StagingKey]volume.InventoryEntry
	ended   map[wire.VoidClaim]bool
	unknown []volume.UnknownMount
	claims  []volume.Claim
	undone  map[volume.StagingKey]*volume.Undone
	fault   func() Fault
	holds   func(*wire.InventoryReport) bool
	answer  chan struct{} // closed: reports that it holds are answered
}

// New returns servers that have heard of nothing and answer every report.
func New() *Servers {
	return &Servers{
		entries: map[volume.StagingKey]volume.InventoryEntry{},
		ended:   map[wire.VoidClaim]bool{},
		undone:  map[volume.StagingKey]*volume.Undone{},
		fault:   func() Fault { return None },
		holds:   func(*wire.InventoryReport) bool { return false },
	}
}

// Fault is what becomes of one report.
type Fault uint8

// The faults of a connection.
const (
	None       Fault = iota
	LostReport       // it never arrives
	LostAnswer       // it is taken over, and the node does not learn that
)

var errLost = errors.New("the connection to the servers is gone")

// Faults asks fn about every report from now on.
func (s *Servers) Faults(fn func() Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fn
}

// Hold takes reports over and answers none that it chooses before release is called.
func (s *Servers) Hold(chooses func(*wire.InventoryReport) bool) (release func()) {
	answer := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds, s.answer = chooses, answer
	return sync.OnceFunc(func() { close(answer) })
}

// SendInventory takes a report over and answers it, but for faults; a node keeper reports to it.
func (s *Servers) SendInventory(ctx context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error) {
	s.mu.Lock()
	fault, answer := s.fault(), s.answer
	if fault == LostReport {
		s.mu.Unlock()
		return nil, errLost
	}
	reply, held := s.take(r), s.holds(r)
	s.mu.Unlock()
	if held {
		select {
		case <-answer:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fault == LostAnswer {
		return nil, errLost
	}
	return reply, nil
}

// InventoryKnown asks for the report: what the servers hold of a node they judge by the replicated state.
func (s *Servers) InventoryKnown(context.Context, *wire.InventoryDigest) (bool, error) {
	return false, nil
}

// Seen is a state that does not move on.
func (s *Servers) Seen() lineage.Point { return lineage.Point{Incarnation: "i", Mark: "m", Index: 1} }

// Marked never tells of another leadership.
func (s *Servers) Marked() <-chan struct{} { return nil }

// take is what the replicated state does with a report. The caller holds the lock.
func (s *Servers) take(r *wire.InventoryReport) *wire.InventoryReply {
	if s.head != 0 && r.Prev != s.head {
		return &wire.InventoryReply{Index: s.head, Head: s.head, Stale: true}
	}
	s.head++
	reply := &wire.InventoryReply{Index: s.head, Head: s.head}
	s.unknown = r.Unknown
	for _, c := range s.claims {
		if _, found := volume.UnknownOf(r.Unknown, c.Plugin); found {
			reply.Claims = append(reply.Claims, c)
		}
	}
	if r.Full {
		clear(s.entries)
	}
	for _, e := range r.Entries {
		if e.Undone != nil {
			s.undone[e.StagingKey] = e.Undone
		}
		wanted := slices.ContainsFunc(e.Publications, func(p volume.InventoryPublication) bool { return p.Wanted })
		if e.Quiet() && !wanted {
			delete(s.entries, e.StagingKey)
			reply.Acked = append(reply.Acked, e.StagingKey)
			continue
		}
		s.entries[e.StagingKey] = e
		for _, p := range e.Publications {
			v := wire.VoidClaim{
				PublicationKey: volume.PublicationKey{StagingKey: e.StagingKey, Alloc: p.Alloc},
				Epoch:          p.Epoch,
			}
			if p.Wanted && s.ended[v] {
				reply.Void = append(reply.Void, v)
			}
		}
	}
	return reply
}

// End ends the claim of a publication by proof: the servers forget what the node said of the volume, and tell the node
// at its next report that the claim is void.
func (s *Servers) End(key volume.PublicationKey, epoch volume.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, key.StagingKey)
	s.ended[wire.VoidClaim{PublicationKey: key, Epoch: epoch}] = true
}

// Claims says which claims are on the node, for what it cannot name.
func (s *Servers) Claims(claims ...volume.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = claims
}

// Unknown lists what the node said it cannot name.
func (s *Servers) Unknown() []volume.UnknownMount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unknown)
}

// Undone is how the node said last that it came to hold nothing of a volume, if not by the plugin's word.
func (s *Servers) Undone(key volume.StagingKey) *volume.Undone {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.undone[key]
}

// Entries lists what the servers believe the node to have or to want, in no order.
func (s *Servers) Entries() []volume.InventoryEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []volume.InventoryEntry
	for _, e := range s.entries {
		out = append(out, e)
	}
	return out
}

// Believe reports whether the servers believe that an alloc has or wants a publication.
func (s *Servers) Believe(key volume.PublicationKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.entries[key.StagingKey].Publications, func(p volume.InventoryPublication) bool {
		return p.Alloc == key.Alloc && (p.Wanted || p.Presence.Exists())
	})
}

// Staged reports whether the servers believe that a volume is staged, or may be.
func (s *Servers) Staged(key volume.StagingKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key].Staging.Exists()
}

// Allocs names the allocs that the servers believe to have or want something.
func (s *Servers) Allocs() []ids.Alloc {
	var out []ids.Alloc
	for _, e := range s.Entries() {
		for _, p := range e.Publications {
			if p.Wanted || p.Presence.Exists() {
				out = append(out, p.Alloc)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
