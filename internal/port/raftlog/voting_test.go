package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// Given what a server's store and the copy beside it say of its term and its vote, as after a crash between the two or
// a damage of one, then after a start both say the same, and nothing by which the server may have acted is forgotten:
// it would vote twice in a term.
func TestNoVoteIsForgottenAtAStart(t *testing.T) {
	type vote struct {
		term, voteTerm uint64
		candidate      string
	}
	five := vote{5, 5, "b"}
	for name, c := range map[string]struct {
		store, copied vote
		damage        func(string) string // of the copy
		want          vote
	}{
		"they agree":                    {five, five, nil, five},
		"the store is behind":           {vote{4, 3, "a"}, five, nil, five},
		"the store has lost its vote":   {vote{5, 3, "a"}, five, nil, five},
		"the store has another vote":    {vote{5, 5, "a"}, five, nil, five},
		"the copy is behind":            {vote{6, 6, "c"}, five, nil, vote{6, 6, "c"}},
		"the copy's term is damaged":    {five, five, edited(`"term":5`, `"term":7`), five},
		"the copy's vote is damaged":    {five, five, edited(`"Yg=="`, `"Yw=="`), five},
		"the term of the vote is":       {five, five, edited(`_term":5`, `_term":4`), five},
		"the copy is cut off":           {five, five, func(s string) string { return s[:9] }, five},
		"the copy is empty":             {five, five, func(string) string { return "" }, five},
		"there was no vote and no copy": {vote{}, vote{}, nil, vote{}},
	} {
		dir := t.TempDir()
		g := openedGuard(t, Config{Dir: dir})
		set := func(v vote) {
			t.Helper()
			if err := errors.Join(g.WAL.SetUint64(files.CurrentTerm, v.term),
				g.WAL.SetUint64([]byte("LastVoteTerm"), v.voteTerm),
				g.WAL.Set([]byte("LastVoteCand"), []byte(v.candidate))); err != nil {
				t.Fatal(err)
			}
		}
		votes := &files.Votes{Dir: dir}
		path := filepath.Join(dir, files.VoteFile)
		set(c.copied)
		if err := votes.Follow(g.WAL, nil); err != nil {
			t.Fatal(err)
		}
		if c.damage != nil {
			text, err := os.ReadFile(path)
			damaged := c.damage(string(text))
			err = errors.Join(err, os.WriteFile(path, []byte(damaged), 0o600))
			if err != nil || damaged == string(text) {
				t.Fatalf("%s: %v, %s", name, err, text)
			}
		}
		set(c.store)
		if err := votes.Agree(g.WAL, g.log); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got vote
		candidate, err := g.WAL.Get([]byte("LastVoteCand"))
		got.candidate = string(candidate)
		var failed [2]error
		got.term, failed[0] = g.WAL.GetUint64(files.CurrentTerm)
		got.voteTerm, failed[1] = g.WAL.GetUint64([]byte("LastVoteTerm"))
		if err := errors.Join(err, failed[0], failed[1]); err != nil || got != c.want {
			t.Errorf("%s: the store says %+v, %v; want %+v", name, got, err, c.want)
		}
		kept, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := votes.Follow(g.WAL, nil); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(kept) {
			t.Errorf("%s: the copy was %s, of what is %s (%v)", name, kept, now, err)
		}
	}
}

func edited(from, to string) func(string) string {
	return func(s string) string { return strings.Replace(s, from, to, 1) }
}
