package request

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Refusal is an error that knows its gRPC code and keeps its causes.
type Refusal struct {
	code codes.Code
	err  error
}

func (r *Refusal) Error() string { return r.err.Error() }

// Unwrap returns the error beneath.
func (r *Refusal) Unwrap() error { return r.err }

// GRPCStatus is how grpc finds the code.
func (r *Refusal) GRPCStatus() *status.Status { return status.New(r.code, r.err.Error()) }

// Refuse makes an answer with a code; the format may wrap errors with %w.
func Refuse(code codes.Code, format string, args ...any) error {
	return &Refusal{code: code, err: fmt.Errorf(format, args...)}
}

// Coded gives an error without a code the one that its cause asks for.
func Coded(err error) error {
	if err == nil {
		return nil
	}
	var r *Refusal
	switch {
	case errors.As(err, &r):
		return &Refusal{code: r.code, err: err}
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &Refusal{code: codes.ResourceExhausted, err: err}
	case errors.Is(err, exec.ErrNotFound):
		return &Refusal{code: codes.FailedPrecondition, err: err}
	case errors.Is(err, context.Canceled):
		return &Refusal{code: codes.Aborted, err: fmt.Errorf("the plugin is stopping: %w", err)}
	}
	return &Refusal{code: codes.Internal, err: err}
}

// Is reports whether err was refused with the code.
func Is(err error, code codes.Code) bool {
	var r *Refusal
	return errors.As(err, &r) && r.code == code
}
