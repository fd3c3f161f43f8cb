package volume

import "testing"

func TestRetryTravelsAsText(t *testing.T) {
	for _, r := range Retries() {
		if got, err := ParseRetry(string(r)); err != nil || got != r {
			t.Errorf("%q is read as %q, %v", r, got, err)
		}
	}
	if got, err := ParseRetry(""); err != nil || got != RetryBackoff {
		t.Errorf("no text is read as %q, %v", got, err)
	}
	if got, err := ParseRetry("whenever"); err == nil || got != RetryBackoff {
		t.Errorf("an unknown word is read as %q, %v", got, err)
	}
}

// TestEveryClassOfRetryIsRead: given each class that an adapter gives, when its text is received, then it is that
// class: one that is missing in the list would turn a refusal into a repetition.
func TestEveryClassOfRetryIsRead(t *testing.T) {
	for _, r := range []Retry{
		RetryBackoff,
		RetryNever,
		RetrySlow,
		RetryVerify,
		RetrySecrets,
		RetryAborted,
		RetryAfterUndo,
		RetryOtherPlace,
		RetryOffline,
		RetryRestartListing,
	} {
		if got, err := ParseRetry(string(r)); got != r || err != nil {
			t.Errorf("%q is read as %q, %v", r, got, err)
		}
	}
}
