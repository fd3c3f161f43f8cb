package allocs_test

import (
	"context"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/allocs"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/wire"
)

// Given a set that leaves out many allocs, when the next one names some of them again, and so leaves out few, then the
// others still wait for as long as when they were missed first.
func TestALaterSetDoesNotCutTheConfirmationShort(t *testing.T) {
	a := tuned(t, func(cfg *allocs.Config) { cfg.ConfirmRemovals = time.Hour })
	a.Restore(lineage.Point{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	all := make([]alloc.Bundle, 11)
	for i := range all {
		all[i] = given()
	}
	apply := func(named ...alloc.Bundle) {
		t.Helper()
		at := lineage.Point{Incarnation: "one", Mark: "m", Index: 1}
		if err := a.Apply(t.Context(), &wire.AllocSet{Full: true, At: at, Bundles: named}); err != nil {
			t.Fatal(err)
		}
	}
	apply(all...)
	apply()
	apply(all[0])
	for _, b := range all[1:] {
		if putOff, err := a.Leave(ctx, b.Alloc.ID); err != nil || !putOff {
			t.Fatalf("whether %s is removed is asked too early: %v", ids.Short(b.Alloc.ID), err)
		}
	}
}
