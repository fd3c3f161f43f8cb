package volume

import (
	"fmt"
	"slices"
)

// Retry says when the same storage call with equal arguments makes sense again. The adapter of plugins gives it to
// every error; it travels from the node that made the call to the servers as its text. Whoever decides by it does so in
// one switch that names every class.
type Retry string

// The classes of retry.
const (
	RetryBackoff   Retry = "backoff"    // again with equal arguments, spaced, growing and jittered
	RetryNever     Retry = "never"      // not before something changed: arguments, plugin version, volume
	RetrySlow      Retry = "slow"       // a person must act: every few minutes, or at a change
	RetryVerify    Retry = "verify"     // look first (list, mount table), then spaced
	RetrySecrets   Retry = "secrets"    // resolve the secrets anew; then again, spaced
	RetryAborted   Retry = "aborted"    // make sure that no own call is pending for the object; then spaced
	RetryAfterUndo Retry = "after-undo" // only after the negation call succeeded
	// here is no capacity: let the scheduler choose another place, or wait
	RetryOtherPlace     Retry = "other-place"
	RetryOffline        Retry = "offline"         // only when the volume is no longer in use where the call says
	RetryRestartListing Retry = "restart-listing" // begin the listing anew with an empty token
)

// Retries lists every class.
func Retries() []Retry {
	return []Retry{
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
	}
}

// ParseRetry reads a class that was received. No text is RetryBackoff; of a text that is none of the classes the error
// tells, and the class is RetryBackoff, which is right when nothing is known.
func ParseRetry(text string) (Retry, error) {
	r := Retry(text)
	switch {
	case text == "":
		return RetryBackoff, nil
	case slices.Contains(Retries(), r):
		return r, nil
	}
	return RetryBackoff, fmt.Errorf("%.40q is no class of retry that this version knows", text)
}
