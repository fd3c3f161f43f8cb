// Package freeport owns how a test finds a port for a program that it starts.
package freeport

import (
	"testing"

	"berth/internal/base/freeport"
)

// Pick returns a port of the loopback interface on which nobody listens.
func Pick(t testing.TB) int {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
