package raftlog

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// TestWhatWasWrittenLastIsWhatIsRead: whatever is written, dropped and written again in its place, in memory and past
// its bounds, an entry is read as it was written last, and one that was dropped is not there.
func TestWhatWasWrittenLastIsWhatIsRead(t *testing.T) {
	g := openedGuard(t, smallLog(t))
	write := func(from, to, term uint64, size int) {
		t.Helper()
		var entries []*raft.Log
		for n := from; n <= to; n++ {
			entries = append(entries, &raft.Log{Index: n, Term: term, Data: append(number(n), make([]byte, size)...)})
		}
		if err := g.StoreLogs(entries); err != nil {
			t.Fatal(err)
		}
	}
	var e raft.Log
	reads := func(at, term uint64, size int) {
		t.Helper()
		if err := g.GetLog(at, &e); err != nil || e.Index != at || e.Term != term || len(e.Data) != size+8 {
			t.Errorf("entry %d is %d of term %d with %d bytes (%v)", at, e.Index, e.Term, len(e.Data), err)
		}
	}
	write(1, recentEntries, 1, 0)
	write(recentEntries+1, recentEntries+10, 1, 1)
	for _, old := range []uint64{1, 10} { // others are held in their places
		reads(old, 1, 0)
	}
	reads(11, 1, 0)
	reads(recentEntries+10, 1, 1)

	if err := g.DeleteRange(recentEntries+5, recentEntries+10); err != nil {
		t.Fatal(err)
	}
	if err := g.GetLog(recentEntries+5, &e); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry that was dropped: %v", err)
	}
	write(recentEntries+5, recentEntries+5, 2, 3)
	reads(recentEntries+4, 1, 1)
	reads(recentEntries+5, 2, 3)

	write(recentEntries+6, recentEntries+6, 2, recentLargest)
	reads(recentEntries+6, 2, recentLargest)
	if g.recent.read(recentEntries+6, &e) || !g.recent.read(recentEntries+5, &e) {
		t.Error("a large entry is held, or one of the usual size is not")
	}
	if err := g.DeleteRange(1, 20); err != nil {
		t.Fatal(err)
	}
	if err := g.GetLog(11, &e); !errors.Is(err, raft.ErrLogNotFound) || g.recent.read(11, &e) {
		t.Errorf("the first one that was dropped: %v", err)
	}
}
