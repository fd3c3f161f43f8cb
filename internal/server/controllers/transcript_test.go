package controllers_test

import (
	"testing"

	"berth/internal/testkit/keepers"
)

func TestTranscripts(t *testing.T) { keepers.Play(t) }
