package inflight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"

	"berth/internal/base/lifecycle"
	"berth/internal/model/trust"
	"berth/internal/wire"
)

type text struct{ Said string }

var (
	echo = wire.Unary[text, text]("Test.Echo")
	hold = wire.Unary[text, text]("Test.Hold")
)

// known are the connections of a listener of which it is known who is at the other end.
type known struct {
	net.Listener
	who trust.Principal
}

func (l known) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return knownConn{c, l.who}, nil
}

type knownConn struct {
	net.Conn
	who trust.Principal
}

func (c knownConn) Peer() trust.Peer { return trust.Peer{Principal: c.who} }

// world is a server behind a limiter, with a way to it for each caller.
type world struct {
	t       *testing.T
	limiter *Limiter
	ways    map[string]*wire.Pipe
	held    chan string   // calls of hold that have come
	release chan struct{} // closed: they are answered
	stop    func()
}

func newWorld(t *testing.T, b Bounds) *world {
	w := &world{
		t:       t,
		limiter: New(b, slog.New(slog.DiscardHandler)),
		ways:    map[string]*wire.Pipe{},
		held:    make(chan string, 100),
		release: make(chan struct{}),
	}
	s := wire.NewServer(nil)
	echo.Serve(s, func(_ context.Context, r *text) (*text, error) { return r, nil })
	hold.Serve(s, func(ctx context.Context, r *text) (*text, error) {
		w.held <- r.Said
		select {
		case <-w.release:
		case <-ctx.Done():
		}
		return r, nil
	})
	var listeners []net.Listener
	for _, name := range []string{"node one", "node two", "server one"} {
		role, id, _ := strings.Cut(name, " ")
		w.ways[name] = wire.NewPipe()
		who := trust.Principal{Role: trust.Role(role), ID: id}
		listeners = append(listeners, w.limiter.Guard(known{w.ways[name].Listener(), who}))
	}
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	g.Go("serve", func() error { return s.Run(ctx, listeners...) })
	w.stop = func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
	return w
}

func (w *world) dial(who string) *grpc.ClientConn {
	c, err := wire.Connect(w.ways[who].Dial)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// holds makes a call that is not answered yet, and waits until it has come; the channel hears of its end.
func (w *world) holds(c *grpc.ClientConn, said string) <-chan error {
	ended := w.calls(w.t.Context(), c, said)
	select {
	case <-w.held:
	case err := <-ended:
		w.t.Fatal("it has ended: ", err)
	}
	return ended
}

func (w *world) calls(ctx context.Context, c *grpc.ClientConn, said string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := hold.Call(ctx, c, &text{said})
		ended <- err
	}()
	return ended
}

const kib = 1 << 10

// Given a node with as much on its way as it may have, over all its connections together, when more comes, then the
// connection by which it comes is ended, with its calls; those of other nodes and of servers go on.
func TestWhatANodeHasOnItsWayIsBounded(t *testing.T) {
	for name, b := range map[string]Bounds{
		"bytes": {Bytes: 1000 * kib, Message: 500 * kib, Calls: 100, Conns: 10},
		"calls": {Bytes: 1 << 30, Message: 500 * kib, Calls: 3, Conns: 10},
	} {
		w := newWorld(t, b)
		said := strings.Repeat("x", 300*kib)
		one, other := w.dial("node one"), w.dial("node one")
		first := w.holds(one, said)
		second, third := w.holds(other, said), w.holds(other, said)
		for _, c := range []*grpc.ClientConn{w.dial("node two"), w.dial("server one")} {
			for range 3 {
				w.holds(c, said)
			}
		}
		server := w.dial("server one")
		for range 5 {
			w.holds(server, said)
		}
		if err := <-w.calls(t.Context(), other, said); err == nil {
			t.Errorf("%s: one too many is answered", name)
		}
		for _, ended := range []<-chan error{second, third} {
			if err := <-ended; err == nil {
				t.Errorf("%s: a call of the connection that was ended is answered", name)
			}
		}
		close(w.release)
		if err := <-first; err != nil {
			t.Errorf("%s: a call of another connection: %v", name, err)
		}
		if _, err := echo.Call(t.Context(), other, &text{said}); err != nil {
			t.Errorf("%s: a call when there is room again: %v", name, err)
		}
		w.stop()
		if len(w.limiter.of) != 0 {
			t.Errorf("%s: what is left when all have gone: %v", name, w.limiter.of)
		}
	}
}

// Given more calls one after the other than there may be at once, then they are answered, and leave nothing.
func TestWhatIsAnsweredIsNotOnItsWay(t *testing.T) {
	w := newWorld(t, Bounds{Bytes: 1000 * kib, Message: 500 * kib, Calls: 2, Conns: 10})
	defer w.stop()
	c := w.dial("node one")
	for i := range 50 {
		said := strings.Repeat("x", i*10*kib)
		if got, err := echo.Call(t.Context(), c, &text{said}); err != nil || got.Said != said {
			t.Fatalf("call %d: %v", i, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := w.calls(ctx, c, said)
		<-w.held
		cancel()
		if err := <-ended; err == nil {
			t.Fatal("a call that was given up is answered")
		}
	}
	if _, err := echo.Call(t.Context(), c, &text{}); err != nil { // it comes behind the last that was given up
		t.Fatal(err)
	}
	w.limiter.mu.Lock()
	defer w.limiter.mu.Unlock()
	if n := w.limiter.of["one"]; n.bytes != 0 || n.calls != 0 || n.conns != 1 {
		t.Errorf("what is left: %+v", n)
	}
}

// Given as many connections of a node as there may be, then one more is ended at once; another node's is let in.
func TestConnectionsOfANodeAreBounded(t *testing.T) {
	w := newWorld(t, Bounds{Bytes: 1 << 30, Message: 1 << 20, Calls: 100, Conns: 2})
	defer w.stop()
	for range 2 {
		if _, err := echo.Call(t.Context(), w.dial("node one"), &text{}); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := w.ways["node one"].Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := raw.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes come by a connection too many", n)
	}
	if _, err := echo.Call(t.Context(), w.dial("node two"), &text{}); err != nil {
		t.Errorf("another node: %v", err)
	}
}

// reading is a connection by which something comes.
type reading struct {
	net.Conn
	from io.Reader
}

func (r reading) Read(p []byte) (int, error) { return r.from.Read(p) }
func (r reading) Close() error               { return nil }

// Given a node that sends a call whose header goes on and on, and one that sends data of a call without an end, then
// both come to the bound, and their connections are ended; what belongs to no call is not of one.
func TestAllThatComesOfACallCounts(t *testing.T) {
	piece := bytes.Repeat([]byte("x"), 16*kib)
	for name, c := range map[string]struct {
		each  func(fr *http2.Framer) error
		ended bool
	}{
		"header":   {func(fr *http2.Framer) error { return fr.WriteContinuation(1, false, piece) }, true},
		"data":     {func(fr *http2.Framer) error { return fr.WriteData(1, false, piece) }, true},
		"no call":  {func(fr *http2.Framer) error { return fr.WriteData(3, false, piece) }, false},
		"settings": {func(fr *http2.Framer) error { return fr.WriteSettings() }, false},
	} {
		var sent bytes.Buffer
		sent.WriteString(http2.ClientPreface)
		fr := http2.NewFramer(&sent, nil)
		err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: piece})
		for range 20 {
			err = errors.Join(err, c.each(fr))
		}
		if err != nil {
			t.Fatal(err)
		}
		l := New(Bounds{Bytes: 200 * kib, Message: 1 << 20, Calls: 10, Conns: 1}, slog.New(slog.DiscardHandler))
		who := trust.Peer{Principal: trust.Principal{Role: trust.Node, ID: "one"}}
		in := l.enter(reading{from: &sent}, who)
		if _, err = io.Copy(io.Discard, in); (err != nil) != c.ended {
			t.Errorf("%s: %v", name, err)
		}
		if err := in.Close(); err != nil || len(l.of) != 0 {
			t.Errorf("%s: left are %v, %v", name, l.of, err)
		}
	}
}

// Given frames that pass by in pieces of any size, then each is seen with all its bytes.
func TestFramesAreFollowedInAnyPieces(t *testing.T) {
	var sent bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	fr := http2.NewFramer(&sent, nil)
	for _, err := range []error{
		fr.WriteSettings(),
		fr.WriteData(3, false, bytes.Repeat([]byte("x"), 300)),
		fr.WriteData(5, true, nil),
		fr.WriteRSTStream(7, http2.ErrCodeCancel),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const want = "SETTINGS 0: 0 bytes, DATA 3: 300 bytes, DATA 5: 0 bytes, RST_STREAM 7: 4 bytes"
	for size := 1; size < sent.Len(); size++ {
		var seen []string
		f := frames{skip: len(http2.ClientPreface)}
		total := 0
		for rest := sent.Bytes(); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			f.feed(rest[:min(size, len(rest))], func(f *frames, n int) {
				if n == 0 {
					seen, total = append(seen, ""), 0
				}
				total += n
				seen[len(seen)-1] = fmt.Sprintf("%s %d: %d bytes", f.kind, f.stream, total)
			})
		}
		if got := strings.Join(seen, ", "); got != want {
			t.Fatalf("in pieces of %d bytes: %s", size, got)
		}
	}
}
