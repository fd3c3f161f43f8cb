package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

func persisted(t *testing.T, s *state.Snap) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Persist(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Given servers whose state holds what was sealed with their key, when another key lies in its place, then they are
// refused with its path, and nothing is written; put back, they start.
func TestAnotherKeyIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := start(t, Config{DataDir: dir}).stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "keyring", "root.key")
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	was, err := Replay(dir)
	if err != nil || was.Sealed == 0 || len(was.Unopened) > 0 {
		t.Fatalf("with its key: %+v, %v", was, err)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, len(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Replay(dir); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), path) {
		t.Errorf("the replay says %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one that starts ends, too
	defer cancel()
	err = New(Config{DataDir: dir}).Run(ctx, Listeners{})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), path) {
		t.Errorf("with another key it ended with %v", err)
	}
	if err := os.WriteFile(path, key, 0o600); err != nil {
		t.Fatal(err)
	}
	now, err := Replay(dir)
	if err != nil || !bytes.Equal(persisted(t, now.State), persisted(t, was.State)) {
		t.Errorf("a server with another key changed the state: %v", err)
	}
	if err := start(t, Config{DataDir: dir}).stop(); err != nil {
		t.Error(err)
	}
}

// Given the directory of servers that ended, with a snapshot and entries since, then a replay makes the state that they
// had.
func TestAReplayMakesTheStateAnew(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{DataDir: dir})
	if err := s.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{DataDir: dir}) // which brings a new mark into the log
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	had := s.Store().Snapshot()
	made, err := Replay(dir)
	if err != nil || made.State.Index() != had.Index() || made.Index < had.Index() {
		t.Fatalf("the state is of entry %d, and was of %d: %v", made.State.Index(), had.Index(), err)
	}
	if !bytes.Equal(persisted(t, made.State), persisted(t, had)) {
		t.Error("the replayed state is another one")
	}
}

// Given an entry that no version so far has written, then a replay names its index.
func TestAReplayNamesWhatCannotBeApplied(t *testing.T) {
	dir := t.TempDir()
	if err := start(t, Config{DataDir: dir}).stop(); err != nil {
		t.Fatal(err)
	}
	was, err := Replay(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := raftlog.Config{Dir: filepath.Join(dir, "raft"), ID: "server", SegmentSize: 1 << 20, Reserve: 1 << 20}
	log := raftlog.New(cfg, fsm.New(state.New()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }()
	for {
		lead, changed := log.Leadership()
		if lead.Leading {
			break
		}
		<-changed
	}
	_, index, err := log.Apply(t.Context(), []byte("of another program"))
	if err == nil || index == 0 {
		t.Errorf("entry %d was applied: %v", index, err)
	}
	at := fmt.Sprintf("log entry %d: ", index) // which the log's own entries may follow at once
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	made, err := Replay(dir)
	if err == nil || !strings.Contains(err.Error(), at) {
		t.Errorf("the replay of %d entries says %v", made.Index, err)
	}
	if !bytes.Equal(persisted(t, made.State), persisted(t, was.State)) {
		t.Error("the state is not that of the entries before")
	}
}
