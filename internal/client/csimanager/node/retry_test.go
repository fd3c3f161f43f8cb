package node

import (
	"testing"
	"time"

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
