package evidence_test

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// Given what a node has of a volume, then a person's word that nothing is left of it stands against each that is, which
// is named, and against nothing only where the plugin alone might know of more.
func TestWhatStandsAgainstAPersonsWord(t *testing.T) {
	staged := func(is volume.Presence) *entry.Entry {
		return &entry.Entry{
			Staging: entry.Staging{Presence: is, HostPath: "/s"},
			Pubs:    map[ids.Alloc]*entry.Publication{},
		}
	}
	with := func(p entry.Publication) *entry.Entry {
		e := staged(volume.Uncertain)
		e.Pubs["a"] = &p
		return e
	}
	pub := func(is volume.Presence) *entry.Entry { return with(entry.Publication{Presence: is}) }
	for name, c := range map[string]struct {
		e        *entry.Entry
		underWay bool
		mount    string
		says     string // empty: nothing stands against it
	}{
		"a failed unstaging":            {staged(volume.Uncertain), false, "/other", ""},
		"it is wanted":                  {with(entry.Publication{Wanted: true}), false, "", "wants it"},
		"it is published":               {pub(volume.Present), false, "", "publication"},
		"it may be published":           {pub(volume.Uncertain), false, "", "publication"},
		"it was published":              {pub(volume.Absent), false, "", ""},
		"a call is under way":           {staged(volume.Uncertain), true, "", "a call of it is under way"},
		"it is staged":                  {staged(volume.Present), false, "", "was not tried yet"},
		"nothing is held":               {staged(volume.Absent), false, "", "nothing of it is held"},
		"something is there":            {staged(volume.Uncertain), false, "/s", "is mounted at /s"},
		"something is mounted below it": {staged(volume.Uncertain), false, "/s/deep", "is mounted at /s/deep"},
	} {
		got := evidence.Against(c.e, c.underWay, hostfs.TableOf(hostfs.Mount{Path: c.mount, FSType: "ext4"}))
		if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
