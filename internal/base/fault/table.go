package fault

import (
	"context"
	"errors"
	"net/http"
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
	Internal:    {13, http.StatusInternalServerError},
	NotFound:    {5, http.StatusNotFound},
	Invalid:     {3, http.StatusBadRequest},
	Conflict:    {9, http.StatusInternalServerError},
	Busy:        {10, http.StatusInternalServerError},
	NotReady:    {11, http.StatusInternalServerError},
	Denied:      {7, http.StatusForbidden},
	Unavailable: {14, http.StatusInternalServerError},
	Timeout:     {4, http.StatusInternalServerError},
	Exhausted:   {8, http.StatusInternalServerError},
	Unsupported: {12, http.StatusNotImplemented},
	Canceled:    {1, http.StatusInternalServerError},
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
	return http.StatusInternalServerError
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
