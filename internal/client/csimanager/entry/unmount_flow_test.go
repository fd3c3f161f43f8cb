package entry

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// TestANodeUnmountsItselfOnlyWhatItKnowsAndNobodyUses: every combination of what decides over it.
func TestANodeUnmountsItselfOnlyWhatItKnowsAndNobodyUses(t *testing.T) {
	seen := Mount{
		Path:   "/m",
		ID:     7,
		Device: "0:5",
		Root:   "/",
		FSType: "tmpfs",
	}
	tops := map[Mount]bool{seen: true}
	for _, differ := range []func(*Mount){
		func(m *Mount) { m.ID = 8 },
		func(m *Mount) { m.Device = "0:6" },
		func(m *Mount) { m.Root = "/x" },
		func(m *Mount) { m.Path = "/m/x" },
	} {
		other := seen
		differ(&other)
		tops[other] = false
	}
	for _, verb := range []Verb{Unpublish, Unstage, Stage, Publish, Expand} {
		for bits := range 1 << 6 {
			for top, ours := range tops {
				f := UnmountFacts{
					Answered:   bits&1 > 0,
					Gone:       bits&2 > 0,
					Unanswered: bits&4 > 0,
					CutOff:     bits&32 > 0,
					Top:        top,
				}
				if bits&8 > 0 {
					f.Before = 1
				}
				published := bits&16 > 0
				e := &Entry{
					Staging: Staging{Presence: volume.Uncertain, Own: []Mount{seen}},
					Pubs:    map[ids.Alloc]*Publication{"a": {Own: []Mount{seen}}, "b": {}},
				}
				if published {
					e.Pubs["b"].Presence = volume.Present
				}
				want := f.Answered && f.Before > 0 && !f.Unanswered && !f.CutOff && ours &&
					(verb == Unpublish && f.Gone || verb == Unstage && !published)
				if ok, why := MayUnmount(e, Step{Verb: verb, Alloc: "a"}, f); ok != want {
					t.Errorf("%s with %+v: %v (%s), want %v", verb, f, ok, why, want)
				}
			}
		}
	}
}

// TestWhoMayStillWriteToWhatIsUnmounted: a file system that the kernel does not write itself has a process that does.
func TestWhoMayStillWriteToWhatIsUnmounted(t *testing.T) {
	for fs, daemon := range map[string]bool{
		"fuse":          true,
		"fuse.s3fs":     true,
		"fuseblk":       true,
		"ext4":          false,
		"xfs":           false,
		"tmpfs":         false,
		"nfs4":          false,
		"9p":            true,
		"something new": true,
	} {
		if got := (Mount{FSType: fs}).Daemon(); got != daemon {
			t.Errorf("%s: %v", fs, got)
		}
	}
}
