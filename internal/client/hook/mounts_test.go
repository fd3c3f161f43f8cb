package hook

import (
	"sync"
	"testing"

	"berth/internal/client/csimanager"
)

// Neither who gave a value nor who got it can change what the next one sees.
func TestMountsAreClosedToBothSides(t *testing.T) {
	var m Mounts
	if got := m.Get(); got != nil {
		t.Errorf("before any were set: %v", got)
	}
	given := map[string]csimanager.MountInfo{"data": {Source: "/a"}}
	m.Set(given)
	given["data"] = csimanager.MountInfo{Source: "/changed by the giver"}
	got := m.Get()
	if got["data"].Source != "/a" {
		t.Errorf("the giver changed it: %v", got)
	}
	got["data"], got["more"] = csimanager.MountInfo{Source: "/changed by the taker"}, csimanager.MountInfo{}
	if again := m.Get(); again["data"].Source != "/a" || len(again) != 1 {
		t.Errorf("the taker changed it: %v", again)
	}
}

// Hooks of several tasks read while the alloc's hook sets anew: each sees one whole value (for the race detector, too).
func TestMountsAreReadWhole(t *testing.T) {
	var m Mounts
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				source := string(rune('a' + i%26))
				m.Set(map[string]csimanager.MountInfo{"one": {Source: source}, "two": {Source: source}})
				if got := m.Get(); len(got) != 2 || got["one"].Source != got["two"].Source {
					t.Errorf("half a value: %v", got)
				}
			}
		})
	}
	wg.Wait()
}
