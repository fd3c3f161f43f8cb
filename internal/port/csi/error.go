package csi

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
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

// Error is the failure of one CSI call. It unwraps to a *fault.Error with the kind, operation, subject and hint.
type Error struct {
	RPC      RPC
	Code     Code   // as the plugin sent it; for a call never sent the code that says why
	Message  string // the plugin's words: secrets masked, control characters removed, at most 1 KiB
	Finality Finality
	Retry    volume.Retry
	Sent     bool // false: refused or failed on this side before anything reached the plugin
	// HiddenID stands for the id of the volume or snapshot that was made, which can be neither kept nor shown, with a
	// reference for each secret in it: with the same secrets its deletion takes it.
	HiddenID string

	fault *fault.Error
}

func (e *Error) Error() string {
	if e.fault == nil {
		return string(e.RPC) + ": " + e.Code.String()
	}
	return e.fault.Error()
}

// Unwrap gives the fault, for fault.KindOf and errors.Is. One that another package made has none.
func (e *Error) Unwrap() error {
	if e.fault == nil {
		return nil // a nil fault in an error is none
	}
	return e.fault
}

// AsError finds the CSI error in a chain.
func AsError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// TimedOut tells whether a call failed because its time was over, by the caller's clock or by the plugin's, which was
// given the same deadline and may find it passed a moment earlier.
func TimedOut(err error) bool {
	e, ok := AsError(err)
	return ok && e.Code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
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

// RetryOf tells when the call that gave err makes sense again; for an error that is no CSI error that is
// volume.RetryBackoff.
func RetryOf(err error) volume.Retry {
	if e, ok := AsError(err); ok {
		return e.Retry
	}
	return volume.RetryBackoff
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

// Lost reports whether a call was sent and its answer did not come: it may still end.
func Lost(err error) bool {
	e, ok := AsError(err)
	return ok && e.Sent &&
		slices.Contains([]codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable}, e.Code)
}
