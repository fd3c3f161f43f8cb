package hookresources

import (
	"sync"
	"testing"

	"berth/internal/client/csimanager"
)

func TestACellThatWasNeverSetSaysSo(t *testing.T) {
	r := New()
	if got, ok := r.Mounts.Get(); ok || got != nil {
		t.Errorf("got %v, %v", got, ok)
	}
	r.Mounts.Set(nil)
	if got, ok := r.Mounts.Get(); !ok || got != nil {
		t.Errorf("nothing that was set: %v, %v", got, ok)
	}
}

// Neither who gave a value nor who got it can change what the next one sees.
func TestACellIsClosedToBothSides(t *testing.T) {
	r := New()
	given := map[string]csimanager.MountInfo{"data": {Source: "/a"}}
	r.Mounts.Set(given)
	given["data"] = csimanager.MountInfo{Source: "/changed by the giver"}
	got, _ := r.Mounts.Get()
	if got["data"].Source != "/a" {
		t.Errorf("the giver changed it: %v", got)
	}
	got["data"], got["more"] = csimanager.MountInfo{Source: "/changed by the taker"}, csimanager.MountInfo{}
	if again, _ := r.Mounts.Get(); again["data"].Source != "/a" || len(again) != 1 {
		t.Errorf("the taker changed it: %v", again)
	}
}

// Hooks of several tasks read while the alloc's hook sets anew: each sees one whole value (for the race detector, too).
func TestACellIsReadWhole(t *testing.T) {
	r := New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				source := string(rune('a' + i%26))
				r.Mounts.Set(map[string]csimanager.MountInfo{"one": {Source: source}, "two": {Source: source}})
				if got, ok := r.Mounts.Get(); !ok || len(got) != 2 || got["one"].Source != got["two"].Source {
					t.Errorf("half a value: %v", got)
				}
			}
		})
	}
	wg.Wait()
}
