package volumes

import (
	"strings"
	"testing"

	"berth/api"
)

// TestAnExpansionIsFollowedUntilTheNodesHaveGrown: a node that tries it keeps the command following; one whose plugin
// refuses it ends that with the reason, once no other tries it.
func TestAnExpansionIsFollowedUntilTheNodesHaveGrown(t *testing.T) {
	refused := api.VolumePlace{Node: "n2", Growth: "refused", LastError: "not while it is mounted"}
	pending := api.VolumePlace{Node: "n1", Growth: "pending"}
	for name, c := range map[string]struct {
		places []api.VolumePlace
		done   bool
		says   string
	}{
		"nobody has it": {nil, true, ""},
		"grown":         {[]api.VolumePlace{{Node: "n1"}}, true, ""},
		"pending":       {[]api.VolumePlace{{Node: "n0"}, pending, refused}, false, ""},
		"refused": {[]api.VolumePlace{{Node: "n1"}, refused}, true,
			"the provider's volume has 1 GiB; the file system on node n2 follows: not while it is mounted"},
	} {
		done, err := grown(&api.CSIVolume{ID: "v", Capacity: 1 << 30, Places: c.places})
		if done != c.done || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: done %v, %v", name, done, err)
		}
	}
}
