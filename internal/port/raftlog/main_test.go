package raftlog

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes sure that a log that was closed leaves no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
