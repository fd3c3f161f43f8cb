package node

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/csimanager/instance"
	"berth/internal/client/dynamicplugins"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

var testKey = volume.StagingKey{Plugin: "p", ExternalID: "vol-1"}

// grantOf is a permission of the servers as most tests need it.
func grantOf(alloc ids.Alloc) csimanager.MountRequest {
	return csimanager.MountRequest{
		Alias:      "data",
		Key:        volume.PublicationKey{StagingKey: testKey, Alloc: alloc},
		Epoch:      volume.Epoch{Incarnation: "i", Index: 1},
		Generation: 1,
		AccessMode: volume.MultiNodeMultiWriter,
	}
}

// madeState is a volume that is staged, and published for allocs that want it.
func madeState(t *testing.T, allocs ...ids.Alloc) *volumeState {
	t.Helper()
	vs := newVolumeState(&entry.Entry{Key: testKey})
	for _, id := range allocs {
		if err := vs.want(grantOf(id)); err != nil {
			t.Fatal(err)
		}
		vs.entry.Pubs[id].Presence = volume.Present
	}
	vs.entry.Staging.Presence, vs.entry.Staging.Args = volume.Present, argsOf(grantOf("a"))
	return vs
}

// TestWhatIsPublishedForNobodyIsNotMeasured: a volume is measured by what somebody uses, and is mounted.
func TestWhatIsPublishedForNobodyIsNotMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*volumeState)
		users  int
	}{
		"used":                 {func(*volumeState) {}, 2},
		"left by one":          {func(vs *volumeState) { vs.withdraw("a") }, 1},
		"lost by one":          {func(vs *volumeState) { vs.entry.Pubs["a"].Presence = volume.Lost }, 1},
		"uncertain for one":    {func(vs *volumeState) { vs.entry.Pubs["b"].Presence = volume.Uncertain }, 1},
		"a staging that is so": {func(vs *volumeState) { vs.entry.Staging.Presence = volume.Uncertain }, 0},
	} {
		vs := madeState(t, "a", "b")
		vs.entry.Pubs["a"].TaskPath, vs.entry.Pubs["b"].TaskPath = "/a", "/b"
		vs.entry.Staging.TaskPath = "/s"
		c.change(vs)
		users := vs.users()
		if len(users) != c.users {
			t.Errorf("%s: used by %v", name, users)
		}
		req, why := vs.measurable("")
		if (why == "") != (c.users > 0) {
			t.Errorf("%s: why it is not measured: %q", name, why)
		}
		if _, used := users[ids.Alloc(strings.TrimPrefix(req.VolumePath, "/"))]; c.users > 0 && !used ||
			c.users > 0 && req.StagingPath != "/s" {
			t.Errorf("%s: measured at %q, %q", name, req.VolumePath, req.StagingPath)
		}
	}
}

// TestAWantIsAcknowledgedUnderItsEpochAlone: what the servers have said of another claim of the alloc, or before it
// withdrew, says nothing about this one.
func TestAWantIsAcknowledgedUnderItsEpochAlone(t *testing.T) {
	vs := newVolumeState(&entry.Entry{Key: testKey})
	acknowledged := func() bool { return vs.facts(entry.Facts{}).Acknowledged["a"] }
	if err := vs.want(grantOf("a")); err != nil {
		t.Fatal(err)
	}
	if acknowledged() {
		t.Error("acknowledged before the servers have heard of it")
	}
	vs.acknowledged["a"] = grantOf("a").Epoch
	if !acknowledged() {
		t.Error("not acknowledged although the servers have said so")
	}
	next := grantOf("a")
	next.Epoch.Index++
	if err := vs.want(next); err != nil {
		t.Fatal(err)
	}
	if acknowledged() {
		t.Error("the acknowledgement of an earlier claim counts")
	}
	vs.acknowledged["a"] = next.Epoch
	vs.withdraw("a")
	if err := vs.want(next); err != nil {
		t.Fatal(err)
	}
	if acknowledged() {
		t.Error("the acknowledgement outlives the withdrawal")
	}
}

// TestWhatAWantWithOtherArgumentsMeans: for a staging that is there.
func TestWhatAWantWithOtherArgumentsMeans(t *testing.T) {
	other := func(g csimanager.MountRequest) csimanager.MountRequest {
		g.MountOptions = &volume.MountOptions{FSType: "xfs"}
		return g
	}
	attached := func(g csimanager.MountRequest) csimanager.MountRequest { g.Generation++; return g }
	for name, c := range map[string]struct {
		user    bool // somebody else uses it
		g       csimanager.MountRequest
		staging volume.Presence
		refused bool
	}{
		"the same beside a user":            {true, grantOf("b"), volume.Present, false},
		"others beside a user":              {true, other(grantOf("b")), volume.Present, true},
		"others beside nobody":              {false, other(grantOf("b")), volume.Lost, false},
		"others for its own publication":    {true, other(grantOf("a")), volume.Present, false},
		"another attachment":                {false, attached(grantOf("b")), volume.Lost, false},
		"another attachment beside a user":  {true, attached(grantOf("b")), volume.Lost, false},
		"another attachment for its own":    {true, attached(grantOf("a")), volume.Lost, false},
		"another attachment, other options": {true, attached(other(grantOf("b"))), volume.Lost, false},
	} {
		vs := madeState(t)
		if c.user {
			vs = madeState(t, "a")
		}
		err := vs.want(c.g)
		if fault.Has(err, fault.Conflict) != c.refused || err != nil && !c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if now := vs.entry.Staging.Presence; now != c.staging {
			t.Errorf("%s: the staging is %s, want %s", name, now, c.staging)
		}
		if c.refused && vs.entry.Pubs[c.g.Key.Alloc] != nil {
			t.Errorf("%s: it was refused and is wanted", name)
		}
	}
}

// TestAPublicationThatChangesItsWritingIsUndoneFirst: a repeated call carries equal arguments.
func TestAPublicationThatChangesItsWritingIsUndoneFirst(t *testing.T) {
	vs := madeState(t, "a")
	g := grantOf("a")
	g.ReadOnly = true
	if err := vs.want(g); err != nil {
		t.Fatal(err)
	}
	if now := vs.entry.Pubs["a"].Presence; now != volume.Lost {
		t.Errorf("it is %s", now)
	}
}

// TestAWantTakesTheIntentToUnstageBack: what was written before it was done is no reason to stage anew.
func TestAWantTakesTheIntentToUnstageBack(t *testing.T) {
	vs := madeState(t, "a")
	vs.withdraw("a")
	vs.entry.Staging.Presence, vs.unstageIntended = volume.Uncertain, true
	if err := vs.want(grantOf("b")); err != nil {
		t.Fatal(err)
	}
	if vs.entry.Staging.Presence != volume.Present || vs.unstageIntended {
		t.Errorf("the staging is %s, an unstaging is intended: %v", vs.entry.Staging.Presence, vs.unstageIntended)
	}
}

// connectionOf is a ready instance whose directories lie at a base; it stages nothing.
func connectionOf(base string) *instance.Connection {
	return &instance.Connection{Info: dynamicplugins.Info{HostBase: base, TaskBase: "/in/task"}}
}

// TestARepeatedCallKeepsItsArguments: a call of unknown end is repeated with what it was made with; what was undone is
// made with what is asked for now.
func TestARepeatedCallKeepsItsArguments(t *testing.T) {
	for presence, kept := range map[volume.Presence]bool{volume.Absent: false, volume.Uncertain: true} {
		vs := newVolumeState(&entry.Entry{Key: testKey})
		g := grantOf("a")
		g.VolumeContext = map[string]string{"asked": "now"}
		if err := vs.want(g); err != nil {
			t.Fatal(err)
		}
		vs.acknowledged["a"] = g.Epoch
		first := argsOf(grantOf("a"))
		vs.entry.Staging = entry.Staging{Presence: presence, Args: first, HostPath: "/base/s/before",
			TaskPath: "/before"}
		if err := vs.prepare(entry.Step{Verb: entry.Stage}, connectionOf("/base")); err != nil {
			t.Fatal(err)
		}
		if got := vs.entry.Staging; got.Args.Equal(first) != kept || (got.HostPath == "/base/s/before") != kept {
			t.Errorf("of a staging that is %s the call would carry %+v", presence, got)
		}
	}
}

// TestAnInstanceWithAnotherBaseTouchesNothing: it would look for the mounts of the other where none are.
func TestAnInstanceWithAnotherBaseTouchesNothing(t *testing.T) {
	vs := madeState(t, "a")
	vs.entry.Staging.HostPath = "/base/s/x"
	step := entry.Step{Verb: entry.Unpublish, Alloc: "a"}
	for base, refused := range map[string]bool{"/base": false, "/bas": true, "/other": true} {
		if err := vs.prepare(step, connectionOf(base)); fault.Has(err, fault.NotReady) != refused {
			t.Errorf("with the base %s: %v", base, err)
		}
	}
}

// TestAFinalRefusalIsRemembered: the call is not made again with equal arguments, and is after another want.
func TestAFinalRefusalIsRemembered(t *testing.T) {
	no := func(r volume.Retry) error {
		return &csi.Error{Code: codes.InvalidArgument, Finality: csi.Final, Retry: r}
	}
	for name, c := range map[string]struct {
		step    entry.Step
		err     error
		refused func(entry.Facts) bool
	}{
		"stage": {entry.Step{Verb: entry.Stage}, no(volume.RetryNever),
			func(f entry.Facts) bool { return f.StageRefused }},
		"publish": {entry.Step{Verb: entry.Publish, Alloc: "a"}, no(volume.RetryNever),
			func(f entry.Facts) bool { return f.Refused["a"] }},
		"expand": {entry.Step{Verb: entry.Expand}, no(volume.RetryNever),
			func(f entry.Facts) bool { return f.ExpandRefused }},
		"expand in use": {entry.Step{Verb: entry.Expand}, no(volume.RetryOffline),
			func(f entry.Facts) bool { return f.ExpandRefused }},
	} {
		vs := madeState(t, "a")
		vs.entry.Staging.HostPath = "/nowhere"
		k := keeperOf(t, vs)
		if err := k.finish(testKey, c.step, volume.Absent, c.err); !errors.Is(err, c.err) {
			t.Errorf("%s: it ended with %v", name, err)
		}
		if !c.refused(vs.facts(entry.Facts{})) {
			t.Errorf("%s: it would be asked for again", name)
		}
	}
	vs := madeState(t, "a")
	err := keeperOf(t, vs).finish(testKey, entry.Step{Verb: entry.Stage}, volume.Absent, no(volume.RetryBackoff))
	if err == nil {
		t.Error("a refusal is no error")
	}
	if vs.facts(entry.Facts{}).StageRefused {
		t.Error("what may pass is taken for final")
	}
}

// TestAStepThatFailedRests: and longer after a failure that only a person can mend.
func TestAStepThatFailedRests(t *testing.T) {
	vs := madeState(t, "a")
	k := keeperOf(t, vs)
	step := entry.Step{Verb: entry.Unpublish, Alloc: "a"}
	k.failed(testKey, step, errors.New("no"))
	if _, due, pause := vs.pick([]entry.Step{step}, time.Now()); due || pause <= 0 || pause > stepPause.Max {
		t.Errorf("after a failure it is due: %v, rests for %s", due, pause)
	}
	if s, due, _ := vs.pick([]entry.Step{step, {Verb: entry.Expand}}, time.Now()); !due || s.Verb != entry.Expand {
		t.Errorf("a step that rests holds up others: %v, %v", s, due)
	}
	k.failed(testKey, step, &csi.Error{Retry: volume.RetrySlow})
	if _, _, pause := vs.pick([]entry.Step{step}, time.Now()); pause < slowRetry/2 {
		t.Errorf("it rests for %s", pause)
	}
	k.retryAll("another")
	if _, _, pause := vs.pick([]entry.Step{step}, time.Now()); pause < slowRetry/2 {
		t.Errorf("another plugin came back, and it rests for %s", pause)
	}
	k.retryAll(testKey.Plugin)
	if _, _, pause := vs.pick([]entry.Step{step}, time.Now()); pause > newConnectionPause {
		t.Errorf("the plugin came back, and it rests for %s", pause)
	}
}

// TestAReportSaysNoLessThanTheDisk: a publication that the disk still has is not said to be gone.
func TestAReportSaysNoLessThanTheDisk(t *testing.T) {
	vs := madeState(t, "a", "b")
	vs.saved = vs.entry.Clone()
	vs.withdraw("a")
	vs.entry.Pubs["a"].Presence, vs.entry.Staging.Presence = volume.Absent, volume.Absent
	vs.dropOver()
	vs.entry.Pubs["b"].Presence = volume.Absent
	r := vs.report()
	if r.Staging != volume.Uncertain {
		t.Errorf("the staging is said to be %s", r.Staging)
	}
	var allocs []string
	for _, p := range r.Publications {
		allocs = append(allocs, string(p.Alloc))
		if p.Presence != volume.Uncertain {
			t.Errorf("the publication of %s is said to be %s", p.Alloc, p.Presence)
		}
	}
	if strings.Join(allocs, " ") != "a b" {
		t.Errorf("publications of %v are reported", allocs)
	}
	vs.saved = nil
	if r := vs.report(); r.Staging != volume.Absent || len(r.Publications) != 1 {
		t.Errorf("with nothing on disk: %+v", r)
	}
}

// TestWhenAMountAndItsReleaseAreDone: both need the staging and the disk besides the publication.
func TestWhenAMountAndItsReleaseAreDone(t *testing.T) {
	vs := madeState(t, "a")
	k := keeperOf(t, vs)
	stagings := map[volume.Presence]bool{volume.Present: true, volume.Uncertain: false, volume.Lost: false}
	for staging, done := range stagings {
		vs.entry.Staging.Presence = staging
		if _, why, _, err := k.look(grantOf("a")); err != nil || (why == "") != done {
			t.Errorf("published from a staging that is %s: %q, %v", staging, why, err)
		}
	}
	vs = madeState(t, "a")
	k = keeperOf(t, vs)
	vs.withdraw("a")
	vs.entry.Pubs["a"].Presence = volume.Absent
	for _, c := range []struct {
		what    string
		staging volume.Presence
		disk    entry.Knowledge
		other   *entry.Publication
		done    bool
	}{
		{"all is undone and written", volume.Absent, entry.Current, nil, true},
		{"all is undone, nothing was ever written", volume.Absent, entry.Nothing, nil, true},
		{"it is not written", volume.Absent, entry.Outdated, nil, false},
		{"it is being written", volume.Absent, entry.Underway, nil, false},
		{"it is staged", volume.Present, entry.Current, nil, false},
		{"it may be staged", volume.Uncertain, entry.Current, nil, false},
		{"it is staged for a publication", volume.Present, entry.Current,
			&entry.Publication{Presence: volume.Uncertain},
			true},
		{"it is staged for a want", volume.Present, entry.Current, &entry.Publication{Wanted: true}, true},
	} {
		vs.entry.Staging.Presence, vs.record.Journal = c.staging, c.disk
		delete(vs.entry.Pubs, "b")
		if c.other != nil {
			vs.entry.Pubs["b"] = c.other
		}
		if done, why := k.Free(grantOf("a").Key); done != c.done {
			t.Errorf("%s: released %v (%s)", c.what, done, why)
		}
	}
}

// TestAVolumeIsGrownOnceAndAfterARefusalNotAgain: until its next use, or until it is to be larger still.
func TestAVolumeIsGrownOnceAndAfterARefusalNotAgain(t *testing.T) {
	vs := madeState(t, "a")
	k := keeperOf(t, vs)
	grows := func() bool {
		steps, _ := entry.Next(vs.entry, vs.facts(entry.Facts{}))
		return slices.Contains(steps, entry.Step{Verb: entry.Expand})
	}
	want := func(size int64, grown bool) {
		t.Helper()
		if err := k.WantSize(testKey, size); err != nil {
			t.Fatal(err)
		}
		if grows() != grown {
			t.Errorf("asked for %d of %+v: it would be grown: %v", size, vs.entry.Staging, grows())
		}
	}
	want(10, true)
	vs.refuse(entry.Step{Verb: entry.Expand}, errors.New("not in use"))
	want(10, false)
	want(20, true)
	vs.worked(entry.Step{Verb: entry.Expand}, evidence.Observed{})
	want(20, false)
	want(5, false)
	if err := k.WantSize(volume.StagingKey{Plugin: "p", ExternalID: "another"}, 1); !fault.Has(err, fault.NotFound) {
		t.Errorf("of a volume that is not staged: %v", err)
	}
}

// keys lists the volumes that a keeper has, for the messages of tests.
func keys(k *Keeper) []volume.StagingKey { return slices.Collect(maps.Keys(k.vols)) }
