package tlsport

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// TestTheOldestOfAnAddressGivesWay: of more handshakes of one address than may be under way the oldest is ended, and
// each that is done makes room for one.
func TestTheOldestOfAnAddressGivesWay(t *testing.T) {
	var p pending
	var ends []net.Conn
	var done []func()
	begin := func() {
		here, there := net.Pipe()
		t.Cleanup(func() { _ = there.Close() })
		ends, done = append(ends, there), append(done, p.begin(here))
	}
	for range maxOfAddress + 2 {
		begin()
	}
	ended := func(i int) bool { return errors.Is(ends[i].SetReadDeadline(time.Time{}), io.ErrClosedPipe) }
	for i := range ends {
		if ended(i) != (i < 2) {
			t.Errorf("handshake %d of %d has ended: %v", i, len(ends), ended(i))
		}
	}
	for _, d := range done[:3] { // of two of which there is nothing to do any more
		d()
	}
	begin()
	if ended(3) || len(p.all) != maxOfAddress {
		t.Errorf("with room for one more there are %d, and the oldest has ended: %v", len(p.all), ended(3))
	}
}
