package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"
)

// Given two ends, then they are a connection by every rule of net.Conn.
func TestEndsAreAConnection(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		a, b := Pipe(nil)
		return a, b, func() { _, _ = a.Close(), b.Close() }, nil
	})
}

// Given a connection that is held, when one end writes and closes, then it waits for nobody, and the other end hears
// of both once the hold ends, its deadline heeded until then.
func TestWhatIsHeldArrivesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		a, b := Pipe(func() <-chan struct{} {
			select {
			case <-held:
				return nil
			default:
				return held
			}
		})
		if _, err := a.Write([]byte("goodbye")); err != nil {
			t.Fatal(err)
		}
		_ = a.Close() // in memory
		if err := b.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 16)
		if n, err := b.Read(p); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read %q, %v of what is held", p[:n], err)
		}
		if err := b.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { close(held) })
		if n, err := b.Read(p); err != nil || string(p[:n]) != "goodbye" {
			t.Fatalf("read %q, %v after the hold", p[:n], err)
		}
	})
}

// Given a connection that is held, when the other end closes, then nobody hears of it, whether he reads or writes,
// until the hold ends.
func TestAnEndInAHoldIsHeardAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		a, b := Pipe(func() <-chan struct{} { return held })
		_ = b.Close() // in memory
		for range 3 {
			if _, err := a.Write(make([]byte, buffered)); err != nil {
				t.Fatalf("who closed was heard in a hold: %v", err)
			}
		}
		read := make(chan error, 1)
		go func() {
			_, err := a.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		select {
		case err := <-read:
			t.Fatalf("who closed was heard in a hold: %v", err)
		default:
		}
		open := held
		held = nil
		close(open)
		if err := <-read; !errors.Is(err, io.EOF) {
			t.Fatalf("after the hold: %v", err)
		}
		if _, err := a.Write([]byte("x")); err == nil {
			t.Fatal("a write to an end that is closed succeeded after the hold")
		}
	})
}
