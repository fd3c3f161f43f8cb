package attaching_test

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
)

// TestWhatIsConverged: a volume is looked at no more once nothing is to be done for it, nor waited for; that its plugin
// has not said yet whether it must be attached matters only to one that somebody uses.
func TestWhatIsConverged(t *testing.T) {
	claim := []*volume.Claim{{Node: "n", State: volume.Held}}
	on := func(n ids.Node) []*volume.Attachment {
		return []*volume.Attachment{{Node: n, Presence: volume.Present}}
	}
	for name, c := range map[string]struct {
		facts     volume.AttachFacts
		converged bool
	}{
		"unused, and its plugin not known": {volume.AttachFacts{}, true},
		"used, and its plugin not known":   {volume.AttachFacts{Claims: claim}, false},
		"attached where it is used": {volume.AttachFacts{
			Known:       true,
			NeedsAttach: true,
			Claims:      claim,
			Attachments: on("n"),
		}, true},
		"to be attached": {volume.AttachFacts{Known: true, NeedsAttach: true, Claims: claim}, false},
		"to be attached once it is detached elsewhere": {volume.AttachFacts{
			Known:       true,
			NeedsAttach: true,
			SingleNode:  true,
			Claims:      claim,
			Attachments: on("m"),
			OnNode:      map[ids.Node]bool{"m": true},
		}, false},
	} {
		if _, converged := attaching.Next(c.facts); converged != c.converged {
			t.Errorf("%s: converged is %v", name, converged)
		}
	}
}
