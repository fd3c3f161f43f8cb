package memnet

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// buffered is how many bytes a direction takes before its writer waits for the reader, as a kernel's buffers do: who
// says goodbye does not wait until it is heard.
const buffered = 1 << 20

// Pipe returns the two ends of a connection. While hold, if there is one, gives a channel that is open, nothing that
// was written arrives at either end.
func Pipe(hold func() <-chan struct{}) (net.Conn, net.Conn) {
	if hold == nil {
		hold = func() <-chan struct{} { return nil }
	}
	a, b := newDirection(hold), newDirection(hold)
	return &end{in: a, out: b}, &end{in: b, out: a}
}

// direction is what goes one way. Its waits are on channels, so that the clock of a bubble goes on during them.
type direction struct {
	hold func() <-chan struct{}

	mu      sync.Mutex
	data    bytes.Buffer
	over    bool // the reader has closed
	ended   bool // the writer has closed
	changed chan struct{}
	read    deadline
	write   deadline
}

// deadline is the time of one; zero: there is none.
type deadline struct{ at time.Time }

func (d deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newDirection(hold func() <-chan struct{}) *direction {
	return &direction{hold: hold, changed: make(chan struct{})}
}

// change tells all who wait that something is otherwise. The caller holds the lock.
func (d *direction) change() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// wait releases the lock, and takes it again after a change, at the deadline, or when also is closed.
func (d *direction) wait(until deadline, also <-chan struct{}) {
	changed := d.changed
	d.mu.Unlock()
	defer d.mu.Lock()
	var over <-chan time.Time
	if !until.at.IsZero() {
		t := time.NewTimer(time.Until(until.at))
		defer t.Stop()
		over = t.C
	}
	select {
	case <-changed:
	case <-over:
	case <-also:
	}
}

func (d *direction) pop(p []byte) (n int, err error) {
	for done := false; !done; {
		n, done, err = d.look(p, d.hold()) // which may be closing us, and waits for the lock
	}
	return n, err
}

// look reads what is there, or waits until that may be otherwise.
func (d *direction) look(p []byte, held <-chan struct{}) (n int, done bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over:
		return 0, true, io.ErrClosedPipe
	case d.read.passed():
		return 0, true, os.ErrDeadlineExceeded
	case held == nil && d.data.Len() > 0:
		n, err = d.data.Read(p)
		d.change()
		return n, true, err
	case held == nil && d.ended:
		return 0, true, io.EOF
	}
	d.wait(d.read, held)
	return 0, false, nil
}

func (d *direction) push(p []byte) (n int, err error) {
	for done := false; !done; {
		var more int
		more, done, err = d.put(p[n:], d.hold()) // as in pop
		n += more
	}
	return n, err
}

// put writes what there is room for, or waits until that may be otherwise. While the connection is held, nobody hears
// that the reader has closed, and what is written to it is gone.
func (d *direction) put(p []byte, held <-chan struct{}) (n int, done bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ended, d.over && held == nil:
		return 0, true, io.ErrClosedPipe
	case d.write.passed():
		return 0, true, os.ErrDeadlineExceeded
	case d.over:
		return len(p), true, nil
	}
	if n = min(buffered-d.data.Len(), len(p)); n > 0 || len(p) == 0 {
		n, err = d.data.Write(p[:n])
		d.change()
		return n, n == len(p), err
	}
	d.wait(d.write, held)
	return 0, false, nil
}

func (d *direction) set(which *deadline, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	which.at = at
	d.change()
}

func (d *direction) finish(which *bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*which = true
	d.change()
}

// end is one end of a connection.
type end struct{ in, out *direction }

// Read implements net.Conn.
func (e *end) Read(p []byte) (int, error) { return e.in.pop(p) }

// Write implements net.Conn.
func (e *end) Write(p []byte) (int, error) { return e.out.push(p) }

// Close implements net.Conn.
func (e *end) Close() error {
	e.in.finish(&e.in.over)
	e.out.finish(&e.out.ended)
	return nil
}

// LocalAddr implements net.Conn.
func (e *end) LocalAddr() net.Addr { return place }

// RemoteAddr implements net.Conn.
func (e *end) RemoteAddr() net.Addr { return place }

// SetDeadline implements net.Conn.
func (e *end) SetDeadline(at time.Time) error {
	e.in.set(&e.in.read, at)
	e.out.set(&e.out.write, at)
	return nil
}

// SetReadDeadline implements net.Conn.
func (e *end) SetReadDeadline(at time.Time) error {
	e.in.set(&e.in.read, at)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (e *end) SetWriteDeadline(at time.Time) error {
	e.out.set(&e.out.write, at)
	return nil
}
