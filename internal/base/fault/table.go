package fault

import (
	"context"
	"errors"
)

// HTTP statuses are spelled out for the same reason as Code: net/http alone would double the small helper program.
const (
	statusBadRequest     = 400
	statusForbidden      = 403
	statusNotFound       = 404
	statusInternalError  = 500
	statusNotImplemented = 501
)

// Code is the number of a gRPC status code. It is spelled out here so that the small helper program can use faults
// without linking gRPC; package wire and port/csi convert it (google.golang.org/grpc/codes has the same numbers).
type Code uint32

type row struct {
	code Code
	http int
}

// table is the one place where kinds meet the outside world: gRPC codes (grpc/codes) and HTTP statuses. Most faults
// that a user caused answer 500, because clients of this API print a 500's body unchanged and branch on 404 and 400.
var table = [...]row{
	Internal:    {13, statusInternalError},
	NotFound:    {5, statusNotFound},
	Invalid:     {3, statusBadRequest},
	Conflict:    {9, statusInternalError},
	Busy:        {10, statusInternalError},
	NotReady:    {11, statusInternalError},
	Denied:      {7, statusForbidden},
	Unavailable: {14, statusInternalError},
	Timeout:     {4, statusInternalError},
	Exhausted:   {8, statusInternalError},
	Unsupported: {12, statusNotImplemented},
	Canceled:    {1, statusInternalError},
}

// GRPC returns the gRPC status code that carries a kind between our own processes.
func (k Kind) GRPC() Code {
	if int(k) < len(table) {
		return table[k].code
	}
	return table[Internal].code
}

// FromGRPC is the inverse of GRPC; codes without a row are Internal.
func FromGRPC(c Code) Kind {
	for k, r := range table {
		if r.code == c {
			return Kind(k)
		}
	}
	return Internal
}

// HTTPStatus returns the HTTP status of a kind.
func (k Kind) HTTPStatus() int {
	if int(k) < len(table) {
		return table[k].http
	}
	return statusInternalError
}

func contextKind(err error) Kind {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return Internal
}
