package wire

import (
	"bytes"
	"testing"

	"berth/internal/model/volume"
)

// TestAClassOfRetryIsItsTextOnTheWire: agents and servers of other versions read it.
func TestAClassOfRetryIsItsTextOnTheWire(t *testing.T) {
	for _, r := range volume.Retries() {
		typed, err := Encode(struct{ Retry volume.Retry }{r})
		if err != nil {
			t.Fatal(err)
		}
		text, err := Encode(struct{ Retry string }{string(r)})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(typed, text) {
			t.Errorf("%s is sent as %x, want %x", r, typed, text)
		}
	}
}
