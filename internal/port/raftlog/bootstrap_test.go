package raftlog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
)

// Given a log whose entries are gone, when it is opened, then that ends with words: neither is it begun anew, nor does
// it wait for a leader that there will never be.
func TestALogThatLostItsEntriesIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := start(t, Config{Dir: dir}, &adder{})
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
		segments, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
		if err != nil || len(segments) == 0 {
			t.Fatal(segments, err)
		}
		for _, s := range segments {
			if err := os.Remove(s); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		again := New(Config{ID: "one", Dir: dir, SegmentSize: 1 << 20, Reserve: 1 << 20}, &adder{})
		if err := again.Run(ctx); !fault.Has(err, fault.Internal) {
			t.Errorf("it was opened, and ended with %v", err)
		}
	})
}

// Given a log without entries and without files that could have held some, which has reached a later term, then it is
// not begun anew: it once had entries.
func TestALogWithoutEntriesInALaterTermIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		keepTerm(t, dir, firstTerm+1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l := New(Config{ID: "one", Dir: dir, SegmentSize: 1 << 20, Reserve: 1 << 20}, &adder{})
		if err := l.Run(ctx); !fault.Has(err, fault.Internal) || !strings.Contains(err.Error(), "term 2") {
			t.Errorf("it was opened, and ended with %v", err)
		}
	})
}

// Given a first start that was cut off between the term and the first entry, when the log is opened, then it leads.
func TestAStartThatWasCutOffIsMadeGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		keepTerm(t, dir, firstTerm)
		if err := start(t, Config{Dir: dir}, &adder{}).stop(); err != nil {
			t.Error(err)
		}
	})
}

// keepTerm makes a log without entries that has reached a term.
func keepTerm(t *testing.T, dir string, term uint64) {
	t.Helper()
	w, err := files.OpenWAL(Config{Dir: dir, SegmentSize: 1 << 20}.withDefaults().files())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.SetUint64(files.CurrentTerm, term), w.Close()); err != nil {
		t.Fatal(err)
	}
}
