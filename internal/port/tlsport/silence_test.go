package tlsport_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/port/tlsport"
	"berth/internal/testkit/certificates"
)

// option reads one of TCP's of a connection.
func option(t *testing.T, c net.Conn, name int) int {
	t.Helper()
	control, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	value := 0
	var got error
	if err := control.Control(func(fd uintptr) {
		value, got = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name)
	}); err != nil || got != nil {
		t.Fatal(err, got)
	}
	return value
}

// remembering keeps what it has accepted.
type remembering struct {
	net.Listener
	conns chan net.Conn
}

func (r remembering) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err == nil {
		r.conns <- c
	}
	return c, err
}

// TestTheKernelGivesUpWhoIsSilent: given a connection, then at either end the kernel gives it up within seconds when
// the other machine is gone, whatever protocol it carries: what was sent is to be acknowledged, and silence is probed.
func TestTheKernelGivesUpWhoIsSilent(t *testing.T) {
	c := certificates.New(t, ids.New())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kept := remembering{l, make(chan net.Conn, 1)}
	serveOn(t, c, kept, true)
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := tlsport.Enter(t.Context(), raw, time.Now(), trust.KeyOf(c.Authority.Root))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for end, raw := range map[string]net.Conn{"who dialled": raw, "who accepted": <-kept.conns} {
		if ms := option(t, raw, unix.TCP_USER_TIMEOUT); ms <= 0 || ms > 20_000 {
			t.Errorf("%s waits %d ms for what was sent to be acknowledged", end, ms)
		}
		idle, every := option(t, raw, unix.TCP_KEEPIDLE), option(t, raw, unix.TCP_KEEPINTVL)
		if n := option(t, raw, unix.TCP_KEEPCNT); idle+every*n > 20 {
			t.Errorf("%s probes after %d s, %d times, each %d s", end, idle, n, every)
		}
	}
}
