package allocs_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// Given directories of allocs whose records are lost and of which nothing runs, then the one that the servers take for
// one that runs is an orphan without processes, and the one that holds a volume says what its end waits for; the one
// that had ended is none, and only its directory is collected.
func TestWhatIsLeftWithoutARecord(t *testing.T) {
	wanted := given()
	mounted, ended := given(), given()
	for _, b := range []alloc.Bundle{mounted, ended} {
		b.Alloc.ClientStatus = alloc.ClientComplete
	}
	a := newAllocs(t, mounted.Alloc.ID)
	all := []alloc.Bundle{wanted, mounted, ended}
	for _, b := range all {
		if err := os.MkdirAll(a.AllocDir(b.Alloc.ID).Path(), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a.Restore(lineage.Point{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	set := &wire.AllocSet{At: lineage.Point{Incarnation: "one", Mark: "m", Index: 1}, Full: true, Bundles: all}
	if err := a.Apply(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	list := map[ids.Alloc]node.Orphan{}
	for _, o := range a.Orphans() {
		list[o.Alloc] = o
	}
	if o, listed := list[wanted.Alloc.ID]; !listed || o.Processes || len(o.Volumes) > 0 || o.Awaits != "" {
		t.Errorf("the one that is taken for one that runs: %v, %+v", listed, o)
	}
	o, listed := list[mounted.Alloc.ID]
	if !listed || o.Processes || !slices.Equal(o.Volumes, []string{"x"}) ||
		o.Awaits != `volume "x" of plugin "p" is to be unmounted: the plugin is away` {
		t.Errorf("the one that holds a volume: %v, %+v", listed, o)
	}
	if len(list) != 2 || !a.Any() {
		t.Errorf("orphans: %+v; something is held: %v", list, a.Any())
	}
	if err := a.Collect(""); err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if left := a.AllocDir(b.Alloc.ID).Exists(); left != (b.Alloc.ID != ended.Alloc.ID) {
			t.Errorf("the directory of %s is there after it was collected: %v", b.Alloc.ID, left)
		}
	}
}
