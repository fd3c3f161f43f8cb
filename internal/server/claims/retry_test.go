package claims

import (
	"testing"

	"berth/internal/model/volume"
)

func TestEveryClassOfRetryGivesAnAttachmentItsPause(t *testing.T) {
	for _, r := range volume.Retries() {
		pause, undo := afterFailure(r, 1, "")
		if undo != (r == volume.RetryAfterUndo) {
			t.Errorf("%s: undone first is %t", r, undo)
		}
		switch {
		case r == volume.RetryNever && pause == neverAgain:
		case r == volume.RetrySlow && pause == slowAgain:
		case r != volume.RetryNever && r != volume.RetrySlow && pause > 0 && pause < slowAgain:
		default:
			t.Errorf("%s: rests for %s", r, pause)
		}
	}
}
