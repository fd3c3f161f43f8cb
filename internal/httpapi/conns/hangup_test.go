package conns

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"

	"berth/internal/base/lifecycle"
)

// polite is a connection whose end in good order waits for its client, as that of TLS may.
type polite struct {
	net.Conn
	asked chan struct{}
}

func (p polite) NetConn() net.Conn { return p.Conn }

func (p polite) Close() error {
	close(p.asked)
	return p.Conn.Close()
}

// TestWhoGivesWayIsNotWaitedFor: given as many connections as there may be, when one more comes, then the one that
// gives way is cut, and not ended in good order: whoever is to be let in would wait for a client that does not listen.
func TestWhoGivesWayIsNotWaitedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	work, _ := lifecycle.NewGroup(t.Context())
	g := New(Bounds{Total: 4, PerClient: 1}, slog.New(slog.DiscardHandler))
	comes := func() (client, server net.Conn) {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		if server, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		return client, server
	}
	client, server := comes()
	first := polite{server, make(chan struct{})}
	if g.enter(first, "one", work) == nil {
		t.Fatal("the first is refused")
	}
	if _, other := comes(); g.enter(other, "one", work) == nil {
		t.Fatal("the second is refused")
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the first reads %v", err)
	}
	select {
	case <-first.asked:
		t.Error("it was ended in good order")
	default:
	}
	if err := work.Wait(); err != nil {
		t.Error(err)
	}
}
