package files

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"
)

// NextSegment is the making of the segment that follows a full one. The library does that beside, once, and takes no
// entry any more when there was no room on the disk. Here it is tried until there is, and whoever has an entry to store
// meanwhile learns of it at once. A nil one tries once.
type NextSegment struct {
	stop <-chan struct{}

	owing sync.Mutex
	owed  func() error // makes what the log was opened without, for want of room; nil: there is nothing

	mu     sync.Mutex
	made   chan struct{} // closed when it is; nil: none is to be made
	lacks  chan struct{} // closed when there was no room for it
	reason error         // why there is none
}

// AwaitNextSegment returns one that is tried until stop is closed.
func AwaitNextSegment(stop <-chan struct{}) *NextSegment { return &NextSegment{stop: stop} }

// retryNext is the pause between tries on a full disk.
const retryNext = 200 * time.Millisecond

// Begin says that a segment will be made, which is to be waited for.
func (n *NextSegment) Begin() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.made == nil {
		n.made = make(chan struct{})
		n.lacks = make(chan struct{})
		n.reason = nil
	}
}

// End says that none is to be made any more.
func (n *NextSegment) End() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.made != nil {
		close(n.made)
		n.made = nil
	}
}

// owe has a log opened without what there is no room for: make is called until it succeeds, before anything is written.
func (n *NextSegment) owe(make func() error) {
	n.owing.Lock()
	defer n.owing.Unlock()
	n.owed = make
}

// settle makes what the log was opened without.
func (n *NextSegment) settle() error {
	n.owing.Lock()
	defer n.owing.Unlock()
	if n.owed == nil {
		return nil
	}
	err := n.owed()
	if err == nil {
		n.owed = nil
	}
	return err
}

// Wait returns when no segment is to be made any more, or why there is no room for it.
func (n *NextSegment) Wait() error {
	if n == nil {
		return nil
	}
	if err := n.settle(); err != nil {
		return err
	}
	n.mu.Lock()
	made, lacks := n.made, n.lacks
	n.mu.Unlock()
	if made == nil {
		return nil
	}
	select {
	case <-made:
		return nil
	case <-lacks:
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.made == nil {
		return nil
	}
	return n.reason
}

// try does a step of the making, again and again while the disk is full.
func (n *NextSegment) try(step func() error) error {
	for {
		err := step()
		if n == nil || !IsFull(err) || !n.lacking(err) {
			return err
		}
		select {
		case <-n.stop:
			return err
		case <-time.After(retryNext):
		}
	}
}

// lacking notes why there is no segment yet; false: nobody waits for one.
func (n *NextSegment) lacking(err error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.made == nil {
		return false
	}
	if n.reason == nil {
		close(n.lacks)
	}
	n.reason = err
	return true
}

// IsFull tells whether something failed for want of room on a disk.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// IsUnwritten tells whether an append failed for want of room before any of it was to be on disk. Then the library goes
// on as if it had not been tried. After a sync that failed nothing is known of what is on disk.
func IsUnwritten(err error) bool {
	var path *fs.PathError
	var call *os.SyscallError
	return IsFull(err) && (errors.As(err, &path) && path.Op != "sync" || errors.As(err, &call))
}

// segmentList is the library's list of segments.
type segmentList struct {
	*metadb.BoltMetaDB
	next *NextSegment
	// ahead is the list as it is to be, where there was no room to write that down before the log was opened; nil: it
	// is written.
	ahead *types.PersistentState
}

// Load reads the list.
func (l *segmentList) Load(dir string) (types.PersistentState, error) {
	s, err := l.BoltMetaDB.Load(dir)
	if err == nil && l.ahead != nil {
		s = *l.ahead
	}
	return s, err
}

// CommitState writes the list.
func (l *segmentList) CommitState(s types.PersistentState) error {
	return l.next.try(func() error { return l.BoltMetaDB.CommitState(s) })
}

// catchUp writes the list as it is to be.
func (l *segmentList) catchUp() error {
	if l.ahead == nil {
		return nil
	}
	err := l.BoltMetaDB.CommitState(*l.ahead)
	if err == nil {
		l.ahead = nil
	}
	return err
}

// segments are the library's, which say when one is full.
type segments struct {
	types.SegmentFiler
	next *NextSegment
	list *segmentList
	open bool // the log is: a segment is made for what is written
}

// Create makes a segment. A log that is being opened needs none before something is written: where there is no room for
// it, or for the list that it is in, it is made then.
func (s *segments) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	if !s.open {
		return s.first(info)
	}
	var w types.SegmentWriter
	err := s.next.try(func() (err error) { w, err = s.SegmentFiler.Create(info); return err })
	if err != nil {
		return nil, err
	}
	s.next.End()
	return tail{w, s.next}, nil
}

// first makes the segment that a log lacks which is being opened.
func (s *segments) first(info types.SegmentInfo) (types.SegmentWriter, error) {
	u := &unmade{}
	create := func() error {
		if err := s.list.catchUp(); err != nil {
			return err
		}
		w, err := s.SegmentFiler.Create(info)
		if err == nil {
			u.made.Store(&w)
		}
		return err
	}
	err := create()
	if IsFull(err) && s.next != nil {
		s.next.owe(create)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return tail{u, s.next}, nil
}

// RecoverTail opens the last segment.
func (s *segments) RecoverTail(info types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := s.SegmentFiler.RecoverTail(info)
	if err != nil {
		return nil, err
	}
	return tail{w, s.next}, nil
}

// tail is the segment that entries are added to.
type tail struct {
	types.SegmentWriter
	next *NextSegment
}

// Sealed tells whether it is full. The library asks after each append, and makes the next one if it is.
func (t tail) Sealed() (bool, uint64, error) {
	sealed, index, err := t.SegmentWriter.Sealed()
	if sealed && err == nil {
		t.next.Begin()
	}
	return sealed, index, err
}
