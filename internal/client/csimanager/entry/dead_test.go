package entry

import (
	"testing"

	"berth/internal/model/volume"
)

// Given a staging whose file system is dead, when the node comes up in another boot, then nothing of it is left: nobody
// waits for a mount that no boot outlives.
func TestADeadFileSystemEndsWithTheBoot(t *testing.T) {
	e := entryOf(volume.Present, Publication{Wanted: true, Presence: volume.Present})
	e.Boot, e.Staging.Dead = "one", "its file system has become read-only"
	if e.WakeOnBoot("two"); e.Staging.Dead != "" {
		t.Errorf("after a boot the file system is dead: %s", e.Staging.Dead)
	}
}

// Given a publication, then who writes, and what shows a file system at all, is told by what was asked and seen.
func TestWhoWritesAndWhatShowsAFileSystem(t *testing.T) {
	for _, c := range []struct {
		what          string
		change        func(e *Entry, p *Publication)
		shows, writes bool
	}{
		{"a writer's", func(*Entry, *Publication) {}, true, true},
		{"a reader's", func(_ *Entry, p *Publication) { p.ReadOnly = true }, true, false},
		{"mounted read-only by the plugin", func(_ *Entry, p *Publication) { p.SeenReadOnly = true }, true, false},
		{"of a volume for readers", func(e *Entry, _ *Publication) {
			e.Staging.Args.AccessMode = volume.MultiNodeReader
		}, true, false},
		{"of a block device", func(e *Entry, _ *Publication) {
			e.Staging.Args.AttachmentMode = volume.BlockDevice
		}, false, true},
		{"lost", func(_ *Entry, p *Publication) { p.Presence = volume.Lost }, false, true},
	} {
		e := entryOf(volume.Present, Publication{Wanted: true, Presence: volume.Present})
		c.change(e, e.Pubs["a"])
		if e.Shows("a") != c.shows || e.Writes("a") != c.writes {
			t.Errorf("%s: shows %v, writes %v", c.what, e.Shows("a"), e.Writes("a"))
		}
	}
	if (&Entry{}).Shows("a") {
		t.Error("what is not published shows a file system")
	}
}

// Given what is wanted and not mounted yet, then it is held: whoever adopts the alloc claims it.
func TestWhatIsWantedIsHeld(t *testing.T) {
	for _, c := range []struct {
		p    Publication
		held bool
	}{
		{Publication{Wanted: true, Presence: volume.Absent}, true},
		{Publication{Presence: volume.Uncertain}, true},
		{Publication{Presence: volume.Absent}, false},
	} {
		if _, held := entryOf(volume.Absent, c.p).HeldBy("a"); held != c.held {
			t.Errorf("%+v: held %v", c.p, held)
		}
	}
	if _, held := entryOf(volume.Present).HeldBy("b"); held {
		t.Error("of an alloc without a publication something is held")
	}
}
