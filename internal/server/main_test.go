package server

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes sure that a server that was stopped leaves no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
