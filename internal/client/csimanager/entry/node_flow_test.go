package entry

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

var update = flag.Bool("update", false, "write the transcript anew")

var presences = []volume.Presence{volume.Absent, volume.Uncertain, volume.Present, volume.Lost}

var both = []bool{false, true}

// world is one alloc's part of the facts.
type world struct{ gone, idle, requested, acknowledged, refused bool }

func worlds(fn func(world)) {
	for bits := range 32 {
		fn(world{bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0, bits&16 > 0})
	}
}

func entryOf(staging volume.Presence, pubs ...Publication) *Entry {
	e := &Entry{Staging: Staging{Presence: staging}, Pubs: map[ids.Alloc]*Publication{}}
	for i := range pubs {
		p := pubs[i]
		e.Pubs[ids.Alloc(string(rune('a'+i)))] = &p
	}
	return e
}

func factsOf(armed, stageRefused bool, ws ...world) Facts {
	f := Facts{
		Armed:        armed,
		StageRefused: stageRefused,
		Gone:         map[ids.Alloc]bool{},
		Idle:         map[ids.Alloc]bool{},
		Requested:    map[ids.Alloc]bool{},
		Acknowledged: map[ids.Alloc]bool{},
		Refused:      map[ids.Alloc]bool{},
	}
	for i, w := range ws {
		f.set(ids.Alloc(string(rune('a'+i))), w)
	}
	return f
}

// set says what holds for one alloc.
func (f Facts) set(id ids.Alloc, w world) {
	f.Gone[id] = w.gone
	f.Idle[id] = w.idle
	f.Requested[id] = w.requested
	f.Acknowledged[id] = w.acknowledged
	f.Refused[id] = w.refused
}

// judge checks every step that is offered against the law.
func judge(t *testing.T, e *Entry, f Facts) []Step {
	t.Helper()
	steps, wait := Next(e, f)
	if len(steps) == 0 && wait == WaitNothing {
		converged := !e.Wanted() && e.Quiet() || e.Wanted() && e.Staging.Presence == volume.Present
		for _, p := range e.Pubs {
			converged = converged &&
				(p.Wanted && p.Presence == volume.Present || !p.Wanted && p.Presence == volume.Absent)
		}
		if !converged {
			t.Fatalf("nothing to do and nothing to wait for: %s, %+v", show(e), f)
		}
	}
	for _, s := range steps {
		bad := func(when bool, why string) {
			if when {
				t.Fatalf("%s: %+v although %s; facts %+v", show(e), s, why, f)
			}
		}
		p := e.Pubs[s.Alloc]
		switch s.Verb {
		case Unpublish:
			bad(!f.Armed, "the node is not armed")
			bad(!p.Presence.Exists(), "it is known to be gone")
			bad(!f.Gone[s.Alloc] && !(p.Wanted && f.Idle[s.Alloc]), "processes may live")
			bad(p.Wanted && p.Presence != volume.Lost && e.Staging.Presence != volume.Lost,
				"it is wanted and well, or its user's own to give up")
		case Unstage:
			bad(!f.Armed, "the node is not armed")
			bad(e.Published(), "a publication may exist")
			bad(f.Unknown, "something is mounted that may be a publication")
			bad(e.Wanted() && e.Staging.Presence != volume.Lost && e.Staging.Dead == "", "it is wanted and well")
			bad(!e.Staging.Presence.Exists(), "it is known to be gone")
		case Stage:
			bad(!e.Wanted(), "nobody wants it")
			bad(e.Staging.Presence == volume.Present || e.Staging.Presence == volume.Lost,
				"it is made, or must be undone first")
			bad(e.Staging.Dead != "" && e.Staging.Presence != volume.Absent, "what is dead must be undone first")
			bad(e.Requester(f) == "", "nobody who asked is known to the servers")
			bad(f.StageRefused, "the plugin refused it")
		case Publish:
			bad(!p.Wanted, "nobody wants it")
			bad(e.Staging.Presence != volume.Present || e.Staging.Dead != "", "the staging is not made, or dead")
			bad(p.Presence == volume.Present || p.Presence == volume.Lost, "it is made, or must be undone first")
			bad(f.Orphans[s.Alloc], "nobody decides about it")
			for Other, o := range e.Pubs {
				bad(Other != s.Alloc && f.Orphans[Other] && o.Presence.Exists() &&
					e.Staging.Args.AccessMode == volume.SingleNodeWriter, "an orphan may write")
			}
			bad(!f.Requested[s.Alloc] || !f.Acknowledged[s.Alloc] || f.Refused[s.Alloc], "it must not be asked for")
		case Expand:
			bad(e.Staging.Presence != volume.Present, "the staging is not made")
		}
	}
	return steps
}

func TestNextForEveryStateAndEveryFact(t *testing.T) {
	n := 0
	orphans := []map[ids.Alloc]bool{{"": true}, {"a": true}}
	for _, staging := range presences {
		for _, pa := range presences {
			for _, pb := range presences {
				for bits := range 32 {
					wantA, wantB := bits&1 > 0, bits&2 > 0
					e := entryOf(staging, Publication{Wanted: wantA, Presence: pa},
						Publication{Wanted: wantB, Presence: pb})
					if bits&16 > 0 {
						e.Staging.Dead = "its file system is read-only"
					}
					e.Staging.Args.AccessMode = volume.SingleNodeWriter
					f := factsOf(bits&4 > 0, bits&8 > 0)
					worlds(func(a world) {
						f.set("a", a)
						worlds(func(b world) {
							f.set("b", b)
							for _, these := range orphans {
								f.Orphans = these
								f.Unknown = !f.Unknown
								judge(t, e, f)
								n++
							}
						})
					})
				}
			}
		}
	}
	t.Logf("%d combinations", n)
}

// TestAnOrphanKeepsOthersFromAVolumeAsItsClaimWould: what an orphan may do beside others is the law of claims.
func TestAnOrphanKeepsOthersFromAVolumeAsItsClaimWould(t *testing.T) {
	free := world{gone: true, requested: true, acknowledged: true}
	for _, c := range []struct {
		mode          volume.AccessMode
		orphan, other bool // reads only
		published     bool
	}{
		{volume.SingleNodeWriter, false, false, false},
		{volume.SingleNodeWriter, true, true, false},
		{volume.SingleNodeReader, true, true, true},
		{volume.MultiNodeSingleWriter, false, false, false},
		{volume.MultiNodeSingleWriter, true, false, true},
		{volume.MultiNodeSingleWriter, false, true, true},
		{volume.MultiNodeMultiWriter, false, false, true},
	} {
		e := entryOf(volume.Present, Publication{Wanted: true, Presence: volume.Present, ReadOnly: c.orphan},
			Publication{Wanted: true, ReadOnly: c.other})
		e.Staging.Args.AccessMode = c.mode
		f := factsOf(true, false, free, free)
		f.Orphans = map[ids.Alloc]bool{"a": true}
		steps, wait := Next(e, f)
		if got := slices.Contains(steps, Step{Verb: Publish, Alloc: "b"}); got != c.published {
			t.Errorf("%s, the orphan reads only %t, the other %t: published beside it is %t (%s)", c.mode, c.orphan,
				c.other, got, wait)
		}
	}
}

// TestEveryRunConverges walks from every state of two allocs, with every outcome of every call, until nothing is left
// to do; a call that fails for ever is not among them.
func TestEveryRunConverges(t *testing.T) {
	free := world{gone: true, requested: true, acknowledged: true}
	for _, staging := range presences {
		for _, pa := range presences {
			for _, pb := range presences {
				for bits := range 4 {
					for _, hiccup := range []Outcome{Worked, Refused, Unknown, Missing, Other} {
						e := entryOf(staging, Publication{Wanted: bits&1 > 0, Presence: pa},
							Publication{Wanted: bits&2 > 0, Presence: pb})
						begin := show(e)
						failed := map[Step]bool{}
						for round := 0; ; round++ {
							steps := judge(t, e, factsOf(true, false, free, free))
							if len(steps) == 0 {
								break
							}
							if round > 40 {
								t.Fatalf("%s with %d never ends: %s, next %+v", begin, hiccup, show(e), steps)
							}
							s := steps[0]
							before := Intend(e, s)
							o := Worked
							if !failed[s] {
								failed[s], o = true, hiccup
							}
							Conclude(e, s, before, o)
						}
					}
				}
			}
		}
	}
}

func TestWhatIsLostStaysLostUntilItIsUndone(t *testing.T) {
	for _, o := range []Outcome{Refused, Unknown} {
		e := entryOf(volume.Present, Publication{Wanted: true, Presence: volume.Lost})
		s := Step{Verb: Unpublish, Alloc: "a"}
		before := Intend(e, s)
		if got := e.Pubs["a"].Presence; got != volume.Lost {
			t.Errorf("the intent to undo it made it %s: after a crash it would be made again on top", got)
		}
		Conclude(e, s, before, o)
		if got := e.Pubs["a"].Presence; got != volume.Lost {
			t.Errorf("after an undoing that did not succeed (%d) it is %s", o, got)
		}
	}
}

func TestTheLastUnpublishingCarriesTheIntentToUnstage(t *testing.T) {
	e := entryOf(volume.Present, Publication{Presence: volume.Present}, Publication{Presence: volume.Absent})
	Intend(e, Step{Verb: Unpublish, Alloc: "a"})
	if e.Staging.Presence != volume.Uncertain {
		t.Errorf("the staging is %s: the unstaging needs a write of its own", e.Staging.Presence)
	}
	e = entryOf(volume.Present, Publication{Presence: volume.Present},
		Publication{Presence: volume.Present, Wanted: true})
	Intend(e, Step{Verb: Unpublish, Alloc: "a"})
	if e.Staging.Presence != volume.Present {
		t.Errorf("the staging is %s although b uses it", e.Staging.Presence)
	}
}

func TestAnotherBootMakesEverythingUncertain(t *testing.T) {
	for _, p := range presences {
		e := entryOf(p, Publication{Presence: p, Wanted: true})
		e.Boot = "one"
		if e.WakeOnBoot("one") || e.Staging.Presence != p {
			t.Error("the same boot changed something")
		}
		want := volume.Uncertain
		if p == volume.Absent {
			want = volume.Absent
		}
		if !e.WakeOnBoot("two") || e.Staging.Presence != want || e.Pubs["a"].Presence != want {
			t.Errorf("%s became %s and %s, want %s", p, e.Staging.Presence, e.Pubs["a"].Presence, want)
		}
	}
}

func show(e *Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "staging %s", e.Staging.Presence)
	for _, id := range e.Allocs() {
		want := "unwanted"
		if e.Pubs[id].Wanted {
			want = "wanted"
		}
		fmt.Fprintf(&b, ", %s %s %s", id, want, e.Pubs[id].Presence)
	}
	return b.String()
}

// TestTheTranscript writes down what one alloc's volume does next in every state, for people to read.
func TestTheTranscript(t *testing.T) {
	var lines []string
	for _, staging := range presences {
		for _, want := range both {
			for _, p := range presences {
				for _, c := range []struct {
					name string
					f    Facts
				}{
					{"free", factsOf(true, false, world{gone: true, requested: true, acknowledged: true})},
					{"running", factsOf(true, false, world{requested: true, acknowledged: true})},
					{"not armed", factsOf(false, false, world{gone: true, requested: true, acknowledged: true})},
					{"unacknowledged", factsOf(true, false, world{gone: true, requested: true})},
				} {
					e := entryOf(staging, Publication{Wanted: want, Presence: p})
					steps, wait := Next(e, c.f)
					var does []string
					for _, s := range steps {
						does = append(does, string(s.Verb))
					}
					if len(does) == 0 {
						does = append(does, "-")
					}
					lines = append(lines,
						strings.TrimRight(
							fmt.Sprintf("%-45s %-15s %-20s %s", show(e), c.name, strings.Join(does, " "), wait), " "))
				}
			}
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	path := filepath.Join("testdata", "node_flow.txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the flow does something else than %s says; look at the difference after -update", path)
	}
}

// TestEveryEndOfACall: what a call came to, after each state of what it was about. The first column is the state after
// the outcomes worked, refused, unknown, missing and other.
func TestEveryEndOfACall(t *testing.T) {
	const (
		absent    = volume.Absent
		uncertain = volume.Uncertain
		present   = volume.Present
		lost      = volume.Lost
	)
	for _, c := range []struct {
		verb   Verb
		before volume.Presence
		after  [5]volume.Presence
	}{
		{Stage, absent, [5]volume.Presence{present, absent, uncertain, lost, lost}},
		{Stage, uncertain, [5]volume.Presence{present, uncertain, uncertain, lost, lost}},
		{Publish, absent, [5]volume.Presence{present, absent, uncertain, lost, lost}},
		{Publish, uncertain, [5]volume.Presence{present, uncertain, uncertain, lost, lost}},
		{Unpublish, present, [5]volume.Presence{absent, present, uncertain, uncertain, uncertain}},
		{Unpublish, uncertain, [5]volume.Presence{absent, uncertain, uncertain, uncertain, uncertain}},
		{Unpublish, lost, [5]volume.Presence{absent, lost, lost, lost, lost}},
		{Unstage, present, [5]volume.Presence{absent, present, uncertain, uncertain, uncertain}},
		{Unstage, uncertain, [5]volume.Presence{absent, uncertain, uncertain, uncertain, uncertain}},
		{Unstage, lost, [5]volume.Presence{absent, lost, lost, lost, lost}},
	} {
		for o, want := range c.after {
			e := entryOf(volume.Present, Publication{}, Publication{Presence: volume.Present})
			s := Step{Verb: c.verb, Alloc: "a"}
			*e.PresenceOf(s) = c.before
			Conclude(e, s, Intend(e, s), Outcome(o))
			if now := *e.PresenceOf(s); now != want {
				t.Errorf("%s of what is %s, outcome %d: it is %s, want %s", c.verb, c.before, o, now, want)
			}
		}
	}
}

// TestOnlyTheLastUnpublishingIntendsToUnstage: beside another publication, or a want, the staging stays.
func TestOnlyTheLastUnpublishingIntendsToUnstage(t *testing.T) {
	for name, c := range map[string]struct {
		other Publication
		want  volume.Presence
	}{
		"alone":                      {Publication{}, volume.Uncertain},
		"beside a publication":       {Publication{Presence: volume.Present}, volume.Present},
		"beside an uncertain one":    {Publication{Presence: volume.Uncertain}, volume.Present},
		"beside a want":              {Publication{Wanted: true}, volume.Present},
		"beside one that was undone": {Publication{Presence: volume.Absent}, volume.Uncertain},
	} {
		e := entryOf(volume.Present, Publication{Presence: volume.Present}, c.other)
		Intend(e, Step{Verb: Unpublish, Alloc: "a"})
		if now := e.Staging.Presence; now != c.want {
			t.Errorf("%s: the staging is %s, want %s", name, now, c.want)
		}
	}
}
