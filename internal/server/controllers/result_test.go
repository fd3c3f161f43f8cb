package controllers

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

func TestAClassOfRetryThatIsNotKnownLeavesTheEndUnknown(t *testing.T) {
	result := func(retry volume.Retry) *wire.ControllerResult {
		return &wire.ControllerResult{Err: &wire.CallError{
			Kind:    uint8(fault.Conflict),
			Retry:   retry,
			Message: "the plugin said no",
		}}
	}
	for _, r := range volume.Retries() {
		got := readable(result(r))
		if uncertain, err := Failure(got); got.Err.Retry != r || uncertain || err == nil ||
			NeedsVerification(got) != (r == volume.RetryVerify) {
			t.Errorf("%s is read as %+v", r, got.Err)
		}
	}
	sent := result("when-the-moon-is-full")
	got := readable(sent)
	if uncertain, err := Failure(got); !uncertain || !strings.Contains(err.Error(), "when-the-moon-is-full") ||
		got.Err.Retry != volume.RetryBackoff {
		t.Errorf("an unknown class is read as %+v", got.Err)
	}
	if sent.Err.Uncertain {
		t.Error("what was received has been changed")
	}
	if got := readable(&wire.ControllerResult{}); got.Err != nil {
		t.Errorf("a call that was done has failed: %+v", got.Err)
	}
}
