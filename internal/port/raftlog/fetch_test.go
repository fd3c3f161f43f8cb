package raftlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
)

// fixed is a peer that always has the same.
type fixed struct {
	Piece
	all []*raft.Log
}

func (fixed) Name() string { return "other" }

func (f fixed) Entries(_ context.Context, from uint64) (Piece, error) {
	p := f.Piece
	p.First, p.Last = f.all[0].Index, f.all[len(f.all)-1].Index
	for _, e := range f.all {
		if e.Index == from+uint64(len(p.Entries)) {
			p.Entries = append(p.Entries, e)
		}
	}
	return p, nil
}

func (fixed) Snapshot(context.Context) (*raft.SnapshotMeta, io.ReadCloser, error) {
	return nil, nil, fault.New(fault.NotFound, "read", "snapshot", "there is none")
}

// entries are sound ones whose terms these digits are, from an index on.
func entries(from uint64, terms string) (out []*raft.Log) {
	for i, t := range terms {
		e := &raft.Log{Index: from + uint64(i), Term: uint64(t - '0')}
		files.Seal(e)
		out = append(out, e)
	}
	return out
}

func terms(entries []*raft.Log) string {
	var out strings.Builder
	for _, e := range entries {
		out.WriteByte(byte('0' + e.Term))
	}
	return out.String()
}

// Given a log in which entries are missing, then they are taken from a server that has what follows them, or from the
// leader of a term in which this one has not acted, or a later one; and from nobody else.
func TestWhoMayMendALog(t *testing.T) {
	middle := files.Wound{
		Head: entries(1, "111"),
		From: 4,
		To:   5,
		Tail: entries(6, "22"),
		Vote: files.Vote{Term: 3},
	}
	end := files.Wound{Head: entries(1, "112"), From: 4, Vote: files.Vote{Term: 3}}
	follower := Piece{Term: 3}
	older := Piece{Leading: true, Term: 2}
	leader := Piece{Leading: true, Term: 3}
	for name, c := range map[string]struct {
		wound files.Wound
		is    Piece
		has   string // terms of its entries
		want  string // of the mended log
		says  string
	}{
		"a follower with what follows":      {middle, follower, "1111222", "1111222", ""},
		"one with more":                     {middle, follower, "111122233", "1111222", ""},
		"a follower with another history":   {middle, follower, "1111133", "", "does not lead"},
		"a follower without what follows":   {middle, follower, "11112", "", "does not lead"},
		"the leader, with another history":  {middle, leader, "111133", "111133", ""},
		"the leader, with less":             {middle, leader, "1111", "1111", ""},
		"a follower, for the end":           {end, follower, "11222", "", "does not lead"},
		"an older leader, for the end":      {end, older, "11222", "", "leads term 2"},
		"the leader, for the end":           {end, leader, "11223", "11223", ""},
		"the leader, which has other ones":  {end, leader, "11133", "11133", ""},
		"the leader, which has nothing new": {end, leader, "112", "112", ""},
		"the leader, which has less":        {end, leader, "11", "11", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.wound
			got, err := by(t.Context(), &w, Config{}.withDefaults(), fixed{c.is, entries(1, c.has)})
			if terms(got) != c.want || (err == nil) != (c.says == "") {
				t.Errorf("got %q (%v), want %q", terms(got), err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("it does not say %q: %v", c.says, err)
			}
		})
	}
}

// Given a peer that sends a damaged entry, then that is refused by its index.
func TestADamagedEntryMendsNothing(t *testing.T) {
	var out bytes.Buffer
	cfg := Config{Log: slog.New(slog.NewTextHandler(&out, nil))}.withDefaults()
	has := entries(1, "1111222")
	has[4].Data = []byte("x")
	w := files.Wound{Head: entries(1, "111"), From: 4, To: 5, Tail: entries(6, "22")}
	if got, err := by(t.Context(), &w, cfg, fixed{Piece{Term: 2}, has}); err == nil {
		t.Errorf("it was taken: %q", terms(got))
	}
	for _, want := range []string{"level=ERROR", "index=5", "server=other"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
}

// noSector has zeros in one of the last sectors.
func noSector(b []byte) []byte {
	at := used(b)/512*512 - 1024
	clear(b[at : at+512])
	return b
}

// Given a write that every sector of has arrived and that does not match its checksum, then it was acknowledged and
// damaged later; one that lacks a sector was cut off.
func TestWhatWasWrittenWholeWasNotCutOff(t *testing.T) {
	g := openedGuard(t, smallLog(t))
	for n := range uint64(20) {
		e := raft.Log{Index: n + 1, Term: 1, Data: append(number(n+1), bytes.Repeat([]byte("data"), 500)...)}
		if err := g.StoreLog(&e); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		from   uint64 // what is missing
	}{
		"nothing":            {func(b []byte) []byte { return b }, 0},
		"a byte":             {flip(20), 20},
		"the checksum":       {flipped(-2), 20},
		"a frame's head":     {func(b []byte) []byte { b[bytes.Index(b, number(20))-12] ^= 0x40; return b }, 20},
		"the last sectors":   {func(b []byte) []byte { clear(b[used(b)-1200:]); return b }, 0},
		"a sector between":   {noSector, 0},
		"a byte before them": {flip(12), 12},
	} {
		t.Run(name, func(t *testing.T) {
			killed := copyDir(t, Config{Dir: g.dir})
			edit(t, one(t, killed.Dir, "wal/*.wal", false), c.damage)
			w, err := files.Sift(killed.Dir)
			if err != nil || w.From != c.from {
				t.Errorf("%s: %v", missing(w), err)
			}
		})
	}
}

// Given a server whose list of segments is lost, then its vote is that of the copy; and without that it is told to be
// replaced, as nobody else has it.
func TestAVoteIsKeptTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.propose(5)
		c.agree()
		m := c.follower()
		c.kill(m)
		before, err := files.Sift(m.dir)
		if err != nil || before.Vote.Term == 0 || len(before.Vote.Candidate) == 0 {
			t.Fatalf("%+v, %v", before.Vote, err)
		}
		edit(t, one(t, m.dir, "wal/"+files.MetaFile, false), none)
		after, err := files.Sift(m.dir)
		if err != nil || after.Vote.Term != before.Vote.Term ||
			!bytes.Equal(after.Vote.Candidate, before.Vote.Candidate) {
			t.Errorf("%+v was %+v: %v", after.Vote, before.Vote, err)
		}
		edit(t, one(t, m.dir, files.VoteFile, false), flipped(9))
		_, err = files.Sift(m.dir)
		for _, want := range []string{files.VoteFile, "remove this server"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("it does not say %q: %v", want, err)
			}
		}
	})
}

// Given a server of several whose vote is damaged in one of its two places, when its log is checked, then that is a
// warning of the file, and of where a start takes the vote from; damaged in both, it is said that nobody else has it,
// and not to bring an older one back.
func TestACheckSaysWhichVoteCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.propose(5)
		c.agree()
		m := c.follower()
		c.kill(m)
		says := func(path string, parts ...string) {
			t.Helper()
			found, err := files.Check(m.dir)
			if err != nil || found.NoVote != nil || len(found.Warnings) != min(len(parts), 1) {
				t.Fatalf("%+v, %v", found, err)
			}
			for _, part := range append(parts, path) {
				if part != "" && !strings.Contains(found.Warnings[0].Error(), part) {
					t.Errorf("it does not say %q: %v", part, found.Warnings[0])
				}
			}
		}
		says("")
		vote := one(t, m.dir, files.VoteFile, false)
		edit(t, vote, flipped(9))
		says(vote, "makes it anew from "+files.MetaFile)
		edit(t, vote, flipped(9)) // as it was

		stored := func(key []byte, change int) {
			t.Helper()
			w, err := files.OpenWAL(c.config(m).withDefaults().files())
			if err != nil {
				t.Fatal(err)
			}
			was, err := w.GetUint64(key)
			if err == nil {
				err = w.SetUint64(key, was+uint64(change))
			}
			if err := errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
		}
		meta := one(t, m.dir, "wal/"+files.MetaFile, false)
		stored([]byte("LastVoteTerm"), 1)
		says(meta, "the next start takes that of "+files.VoteFile)
		stored(files.CurrentTerm, 1) // it has gone on, and was cut off before the copy was made
		says("")

		edit(t, meta, none)
		if found, err := files.Check(m.dir); err == nil || found.NoVote != nil {
			t.Errorf("with the copy of the vote: %v, %v", found.NoVote, err)
		}
		edit(t, vote, flipped(9))
		found, err := files.Check(m.dir)
		if err == nil || found.NoVote == nil || strings.Contains(found.NoVote.Error(), "from a backup") ||
			!strings.Contains(found.NoVote.Error(), "remove this server") {
			t.Errorf("with neither: %v, %v", found.NoVote, err)
		}
	})
}

// Given a server that has the last entry of a snapshot which the leader sends, then its log is kept; else Raft takes
// it.
func TestASnapshotOfWhatIsThereIsNotTaken(t *testing.T) {
	g := openedGuard(t, smallLog(t))
	snaps, err := files.OpenSnapshots(g.dir, files.NewLogger(g.log))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries(1, "1122") {
		if err := g.StoreLog(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.SetUint64(files.CurrentTerm, 3); err != nil {
		t.Fatal(err)
	}
	_, trans := raft.NewInmemTransport("one")
	c, _ := newChecked(trans, slog.New(slog.DiscardHandler), g, snaps)
	for name, want := range map[string]struct {
		req  raft.InstallSnapshotRequest
		has  bool
		fail bool
	}{
		"there":        {raft.InstallSnapshotRequest{Term: 3, LastLogIndex: 3, LastLogTerm: 2}, true, false},
		"another term": {raft.InstallSnapshotRequest{Term: 3, LastLogIndex: 3, LastLogTerm: 3}, false, false},
		"further on":   {raft.InstallSnapshotRequest{Term: 3, LastLogIndex: 9, LastLogTerm: 2}, false, false},
		"old leader":   {raft.InstallSnapshotRequest{Term: 2, LastLogIndex: 3, LastLogTerm: 2}, false, false},
		"new leader":   {raft.InstallSnapshotRequest{Term: 4, LastLogIndex: 3, LastLogTerm: 2}, false, true},
	} {
		has, err := c.has(raft.RPC{Command: &want.req})
		if has != want.has || (err != nil) != want.fail {
			t.Errorf("%s: %v, %v", name, has, err)
		}
	}
}
