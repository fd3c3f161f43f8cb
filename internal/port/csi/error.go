package csi

import (
	"errors"
	"slices"

	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
)

// Code is the gRPC status code of a plugin's answer, as it was sent.
type Code = codes.Code

// Finality says what is known after a call that did not succeed.
type Finality uint8

// Unknown is the zero value on purpose: what nobody classified is uncertain.
const (
	Unknown Finality = iota // the end of the call is not known: what it was about is uncertain until undone or repeated
	Final                   // this call did nothing: the plugin said no, or it was never sent
)

func (f Finality) String() string {
	if f == Final {
		return "final"
	}
	return "unknown"
}

// Retry says when the same call with equal arguments makes sense again.
type Retry uint8

// The classes of retry. Backoff is the zero value: spaced, growing, jittered.
const (
	RetryBackoff        Retry = iota // again with equal arguments, spaced
	RetryNever                       // not before something changed: arguments, plugin version, volume
	RetrySlow                        // a person must act: every few minutes, or at a change
	RetryVerify                      // look first (list, mount table), then spaced
	RetrySecrets                     // resolve the secrets anew; then again, spaced
	RetryAborted                     // make sure that no own call is pending for the object; then spaced
	RetryAfterUndo                   // only after the negation call succeeded
	RetryOtherPlace                  // here is no room: let the scheduler choose another place, or wait for room
	RetryOffline                     // only when the volume is no longer in use where the call says
	RetryRestartListing              // begin the listing anew with an empty token
)

var retryNames = [...]string{"backoff", "never", "slow", "verify", "secrets", "aborted", "after-undo", "other-place", "offline", "restart-listing"}

func (r Retry) String() string {
	if int(r) < len(retryNames) {
		return retryNames[r]
	}
	return "invalid"
}

// ParseRetry reads what Retry.String has printed, for reports that travel as text.
func ParseRetry(text string) (Retry, bool) {
	i := slices.Index(retryNames[:], text)
	return Retry(max(i, 0)), i >= 0
}

// Error is the failure of one CSI call. It unwraps to a *fault.Error with the kind, operation, subject and hint.
type Error struct {
	RPC      RPC
	Code     Code   // as the plugin sent it; for a call never sent the code that says why
	Message  string // the plugin's words: secrets masked, control characters removed, at most 1 KiB
	Finality Finality
	Retry    Retry
	Sent     bool // false: refused or failed on this side before anything reached the plugin

	fault *fault.Error
}

func (e *Error) Error() string { return e.fault.Error() }

// Unwrap gives the fault, for fault.KindOf and errors.Is.
func (e *Error) Unwrap() error { return e.fault }

// AsError finds the CSI error in a chain.
func AsError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// FinalityOf tells what is known after err. Success is Final; an error that is no CSI error is Unknown.
func FinalityOf(err error) Finality {
	if err == nil {
		return Final
	}
	if e, ok := AsError(err); ok {
		return e.Finality
	}
	return Unknown
}

// RetryOf tells when the call that gave err makes sense again; for an error that is no CSI error that is RetryBackoff.
func RetryOf(err error) Retry {
	if e, ok := AsError(err); ok {
		return e.Retry
	}
	return RetryBackoff
}

// CodeOf returns the code of a CSI error, codes.OK for success and codes.Unknown for any other error.
func CodeOf(err error) Code {
	if err == nil {
		return codes.OK
	}
	if e, ok := AsError(err); ok {
		return e.Code
	}
	return codes.Unknown
}
