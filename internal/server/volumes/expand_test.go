package volumes

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// A node keeps the wish that a volume grows. It is asked again after a pause, for another size, after its connection
// broke, and by the next registration of the volume.
func TestANodeIsAskedToGrowAVolumeWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g growth
		key := growKey{volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}, "n"}
		due := func(what string, key growKey, bytes int64, want time.Duration) {
			t.Helper()
			if got := g.due(key, bytes); got != want {
				t.Errorf("%s: asked again in %s, want %s", what, got, want)
			}
		}
		due("never asked", key, 10, 0)
		due("asked a moment ago", key, 10, growPause)
		due("another node", growKey{key.vol, "m"}, 10, 0)
		due("another volume", growKey{volume.ID{ID: "w"}, "n"}, 10, 0)
		time.Sleep(growPause / 2)
		due("asked half a pause ago", key, 10, growPause/2)
		due("for another size", key, 20, 0)
		time.Sleep(growPause)
		due("asked a pause ago", key, 20, 0)
		g.forget(key)
		due("reconnected", key, 20, 0)
		g.forgetVolume(key.vol)
		due("registered anew", key, 20, 0)
	})
}
