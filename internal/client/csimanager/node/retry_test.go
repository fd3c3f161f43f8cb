package node

import (
	"testing"

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
		case volume.RetryAfterUndo:
			if pause != 0 {
				t.Errorf("%s: rests for %s before its undo", r, pause)
			}
		default:
			if pause <= 0 || pause > stepPause.Max {
				t.Errorf("%s: rests for %s", r, pause)
			}
		}
	}
}
