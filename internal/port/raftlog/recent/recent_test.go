package recent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// TestWhatWasWrittenLastIsWhatIsRead: whatever is written, dropped and written again in its place, in memory and past
// its bounds, an entry is read as it was written last, and one that was dropped is not there.
func TestWhatWasWrittenLastIsWhatIsRead(t *testing.T) {
	w, err := wal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	l := &Log{WAL: w}
	write := func(from, to, term uint64, size int) {
		t.Helper()
		var entries []*raft.Log
		for n := from; n <= to; n++ {
			entries = append(entries, &raft.Log{Index: n, Term: term, Data: fmt.Appendf(make([]byte, size), "%08d", n)})
		}
		if err := l.StoreLogs(entries); err != nil {
			t.Fatal(err)
		}
	}
	var e raft.Log
	reads := func(at, term uint64, size int) {
		t.Helper()
		if err := l.GetLog(at, &e); err != nil || e.Index != at || e.Term != term || len(e.Data) != size+8 {
			t.Errorf("entry %d is %d of term %d with %d bytes (%v)", at, e.Index, e.Term, len(e.Data), err)
		}
	}
	write(1, Entries, 1, 0)
	write(Entries+1, Entries+10, 1, 1)
	for _, old := range []uint64{1, 10} { // others are held in their places
		reads(old, 1, 0)
	}
	reads(11, 1, 0)
	reads(Entries+10, 1, 1)

	if err := l.DeleteRange(Entries+5, Entries+10); err != nil {
		t.Fatal(err)
	}
	if err := l.GetLog(Entries+5, &e); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry that was dropped: %v", err)
	}
	write(Entries+5, Entries+5, 2, 3)
	reads(Entries+4, 1, 1)
	reads(Entries+5, 2, 3)

	write(Entries+6, Entries+6, 2, largest)
	reads(Entries+6, 2, largest)
	if l.read(Entries+6, &e) || !l.read(Entries+5, &e) {
		t.Error("a large entry is held, or one of the usual size is not")
	}
	if err := l.DeleteRange(1, 20); err != nil {
		t.Fatal(err)
	}
	if err := l.GetLog(11, &e); !errors.Is(err, raft.ErrLogNotFound) || l.read(11, &e) {
		t.Errorf("the first one that was dropped: %v", err)
	}
}
