package node

import (
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

func TestEveryClassOfRetryGivesAStepItsPause(t *testing.T) {
	for _, r := range volume.Retries() {
		pause := pauseAfter(1, &csi.Error{Retry: r})
		switch r {
		case volume.RetryNever:
			if pause != noRetry {
				t.Errorf("%s: rests for %s", r, pause)
			}
		case volume.RetrySlow:
			if pause != slowRetry {
				t.Errorf("%s: rests for %s", r, pause)
			}
		default:
			if pause <= 0 || pause > stepPause.Max {
				t.Errorf("%s: rests for %s", r, pause)
			}
		}
	}
}

// TestAStepThatIsUndoneRestsLongerEachTime: the undo comes at once, the step rests from the end of the undo on, and
// only its own success ends the count.
func TestAStepThatIsUndoneRestsLongerEachTime(t *testing.T) {
	for made, undo := range map[entry.Step]entry.Step{
		{Verb: entry.Stage}:               {Verb: entry.Unstage},
		{Verb: entry.Publish, Alloc: "a"}: {Verb: entry.Unpublish, Alloc: "a"},
	} {
		vs := madeState(t, "a")
		k := keeperOf(t, vs)
		for n := 1; n <= 10; n++ {
			k.failed(testKey, made, &csi.Error{Retry: volume.RetryAfterUndo})
			if s, due, _ := vs.pick([]entry.Step{undo, made}, time.Now()); !due || s != undo {
				t.Errorf("%s %d: due is %q, %v", made.Verb, n, s.Verb, due)
			}
			if _, due, _ := vs.pick([]entry.Step{made}, time.Now()); due {
				t.Errorf("%s %d: it does not rest", made.Verb, n)
			}
			r := vs.retries[made]
			r.next = time.Time{} // the undo took longer than the pause
			vs.retries[made] = r
			before := time.Now()
			vs.worked(undo, evidence.Observed{})
			if _, due, pause := vs.pick([]entry.Step{made}, before); due || pause < stepPause.Pause(n)*4/5 {
				t.Errorf("%s %d: after the undo it is due: %v, rests for %s", made.Verb, n, due, pause)
			}
		}
		vs.worked(made, evidence.Observed{})
		k.failed(testKey, made, &csi.Error{Retry: volume.RetryAfterUndo})
		if n := vs.retries[made].failures; n != 1 {
			t.Errorf("%s: after a success it counts %d failures", made.Verb, n)
		}
	}
}

// TestAnUndoThatNobodyNeededHoldsUpNothing: the pause after another failure is that of the failure.
func TestAnUndoThatNobodyNeededHoldsUpNothing(t *testing.T) {
	vs := madeState(t, "a")
	made := entry.Step{Verb: entry.Stage}
	vs.retries[made] = attempts{failures: 5, err: &csi.Error{Retry: volume.RetryBackoff}}
	vs.worked(entry.Step{Verb: entry.Unstage}, evidence.Observed{})
	if _, due, pause := vs.pick([]entry.Step{made}, time.Now()); !due {
		t.Errorf("it rests for %s", pause)
	}
}

// TestAnErrorOfWhatNobodyWantsAnyMoreIsHistory: given an unpublishing that failed and rests, when its alloc may not be
// undone any more, or wants the volume again, then what is shown is what holds now; the failure is shown again with its
// step.
func TestAnErrorOfWhatNobodyWantsAnyMoreIsHistory(t *testing.T) {
	vs := madeState(t, "a")
	k := keeperOf(t, vs)
	undo := entry.Step{Verb: entry.Unpublish, Alloc: "a"}
	gone := entry.Facts{Armed: true, Gone: map[ids.Alloc]bool{"a": true}}
	vs.withdraw("a")
	k.pick(testKey, gone, nil)
	k.failed(testKey, undo, &csi.Error{Retry: volume.RetryBackoff, Message: "the target is busy"})
	vs.on(entry.Reporting)
	shown := func(facts entry.Facts, why, step string, failed bool) {
		t.Helper()
		k.pick(testKey, facts, map[ids.Alloc]string{"a": why})
		r := vs.report()
		if r.Step != step || (r.LastError != "") != failed || r.NextTry.IsZero() == failed {
			t.Errorf("shown is %q, last error %q, next try at %v", r.Step, r.LastError, r.NextTry)
		}
	}
	shown(gone, "", "", true)
	shown(entry.Facts{Armed: true}, "it runs", string(entry.WaitProcesses)+": it runs", false)
	if !vs.record.Named(false, false) {
		t.Error("the servers are not shown")
	}
	shown(gone, "", "", true)
	k.say(testKey, "its plugin is not ready")
	if r := vs.report(); r.Step != "its plugin is not ready" || r.LastError != "" {
		t.Errorf("without its plugin: %q, last error %q", r.Step, r.LastError)
	}
	shown(gone, "", "", true)
	if err := vs.want(grantOf("a")); err != nil {
		t.Fatal(err)
	}
	shown(gone, "", "", false)
}

// TestTheReasonIsThatOfTheAllocWhoseProcessesAreAwaited: given an alloc that nobody wants any more and whose processes
// live, and another that wants the volume, in whichever order they are asked, then what is shown is why the first is
// not gone.
func TestTheReasonIsThatOfTheAllocWhoseProcessesAreAwaited(t *testing.T) {
	for _, leaves := range []ids.Alloc{"a", "b"} {
		vs := madeState(t, "a")
		k := keeperOf(t, vs)
		b := *vs.entry.Pubs["a"]
		vs.entry.Pubs["b"] = &b
		vs.withdraw(leaves)
		left := map[ids.Alloc]string{"a": "a goes on", "b": "b goes on"}
		k.pick(testKey, entry.Facts{Armed: true}, left)
		if got, want := vs.report().Step, string(entry.WaitProcesses)+": "+left[leaves]; got != want {
			t.Errorf("shown is %q, want %q", got, want)
		}
	}
}

// TestWhatCannotGrowInUseSaysSo: given a plugin that refuses to grow a volume as it is used, then that is shown for as
// long as the volume is used so, without a next try; another size is tried at once, and so is the next staging.
func TestWhatCannotGrowInUseSaysSo(t *testing.T) {
	for name, retry := range map[string]volume.Retry{"in use": volume.RetryOffline, "ever": volume.RetryNever} {
		vs := madeState(t, "a")
		k := keeperOf(t, vs)
		vs.acknowledged["a"] = grantOf("a").Epoch
		grow := entry.Step{Verb: entry.Expand}
		facts := entry.Facts{Armed: true, Gone: map[ids.Alloc]bool{"a": true}}
		refused := func() {
			t.Helper()
			if d := k.pick(testKey, facts, nil); !d.ok || d.step != grow {
				t.Fatalf("%s: it is not grown: %+v", name, d)
			}
			no := &csi.Error{Retry: retry, Message: "not while it is mounted"}
			vs.refuse(grow, no)
			k.failed(testKey, grow, no)
			k.pick(testKey, facts, nil)
			r := vs.report()
			if !strings.HasPrefix(r.LastError, volume.GrowthRefused) || !r.NextTry.IsZero() {
				t.Errorf("%s: shown is %q, next try at %v", name, r.LastError, r.NextTry)
			}
			if vs.news() != csimanager.Standing {
				t.Errorf("%s: the servers hear of it as of %v", name, vs.news())
			}
		}
		for _, size := range []int64{1000, 2000} {
			if err := k.WantSize(testKey, size); err != nil {
				t.Fatal(err)
			}
			refused()
		}
		vs.worked(entry.Step{Verb: entry.Unstage}, evidence.Observed{})
		vs.entry.Staging.ExpandTo = 2000
		refused()
	}
}
