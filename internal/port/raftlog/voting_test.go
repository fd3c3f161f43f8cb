package raftlog

import (
	"os"
	"sync"
	"testing"

	"berth/internal/port/raftlog/files"
)

// TestTermAndVoteAreWrittenOneAfterAnother: Raft begins a term from a heartbeat, beside all else that it does, and may
// be writing its vote just then. Neither is lost, and the copy is as new as the store when both are done.
func TestTermAndVoteAreWrittenOneAfterAnother(t *testing.T) {
	dir := t.TempDir()
	g := openedGuard(t, Config{Dir: dir})
	g.votes = &files.Votes{Dir: dir}
	for term := range uint64(50) {
		var both sync.WaitGroup
		both.Go(func() { _ = g.SetUint64(files.CurrentTerm, term) })
		both.Go(func() { _ = g.SetUint64([]byte("LastVoteTerm"), term) })
		both.Wait()
		if err := g.sick.Load(); err != nil {
			t.Fatalf("in term %d: %v", term, *err)
		}
		text, err := os.ReadFile(dir + "/" + files.VoteFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.votes.Agree(g.WAL, g.log); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(dir + "/" + files.VoteFile); err != nil || string(now) != string(text) {
			t.Fatalf("in term %d the copy was %s (%v)", term, text, err)
		}
	}
}
