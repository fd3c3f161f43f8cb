package raftlog

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
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

// Given a first start that was cut off between the term and the first entry, when the log is opened, then it leads.
func TestAStartThatWasCutOffIsMadeGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w, err := openWAL(Config{Dir: dir, SegmentSize: 1 << 20}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.SetUint64(currentTerm, firstTerm); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := start(t, Config{Dir: dir}, &adder{}).stop(); err != nil {
			t.Error(err)
		}
	})
}
