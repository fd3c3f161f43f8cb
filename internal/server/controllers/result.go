package controllers

import (
	"errors"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/retry"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Backoff is the pause before a controller call that failed is made again.
var Backoff = retry.Backoff{Min: 500 * time.Millisecond, Max: time.Minute}

// Failure turns a result's error into a fault, nil when the call was done, and tells whether its end is unknown.
func Failure(r *wire.ControllerResult) (uncertain bool, err error) {
	if r.Err == nil {
		return false, nil
	}
	e := r.Err
	return e.Uncertain, &fault.Error{Kind: fault.Kind(e.Kind), Hint: e.Hint, Err: errors.New(e.Message)}
}

// NeedsVerification says that a result leaves it to the provider's list whether the call was done.
func NeedsVerification(r *wire.ControllerResult) bool {
	return r.Err != nil && r.Err.Retry == volume.RetryVerify
}

// readable holds a result against what this server knows. How a call ended whose class of retry it does not know, as
// one of a newer agent, is not known: it is made again like any other.
func readable(r *wire.ControllerResult) *wire.ControllerResult {
	if r.Err == nil {
		return r
	}
	e := *r.Err
	retry, err := volume.ParseRetry(string(e.Retry))
	e.Retry = retry
	if err != nil {
		e.Uncertain = true
		e.Message += "; " + err.Error()
	}
	n := *r
	n.Err = &e
	return &n
}

// Unverified joins a plugin's "not found" with what the provider's list says against it.
func Unverified(cause, against error) error { return fmt.Errorf("%w; verify: %w", cause, against) }
