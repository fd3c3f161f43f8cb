package conns

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// patience is how long the tests wait for what must come.
const patience = 30 * time.Second

// pause is how long the tests' clients may send nothing.
const pause = 50 * time.Millisecond

// world is an HTTP server behind a gate, on a port and on a unix socket.
type world struct {
	t          *testing.T
	log        *text
	port, unix net.Addr
	gate       *Gate
}

// text is a log that can be read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// guarded admits every request but those that show a wrong token, as the API does.
func guarded(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Nomad-Token") == "wrong" {
			Refused(w, r)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		Admitted(r)
		handle(w, r)
	}
}

func serve(t *testing.T, b Bounds, handle http.HandlerFunc) *world {
	w := &world{t: t, log: &text{}}
	w.gate = New(b, slog.New(slog.NewTextHandler(w.log, nil)))
	for _, at := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", filepath.Join(t.TempDir(), "s")}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.gate.Serve(ctx, l, guarded(handle)) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		if at[0] == "tcp" {
			w.port = l.Addr()
		} else {
			w.unix = l.Addr()
		}
	}
	return w
}

// idle reports whether there is an idle connection.
func (w *world) idle() bool {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	return w.gate.oldestIdle(func(*conn) bool { return true }) != nil
}

// eventually waits for what the server does after it has answered, or learns by reading.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("not so: %s", what)
		}
	}
}

func (w *world) held() int {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	return len(w.gate.held)
}

// client is one connection.
type client struct {
	net.Conn
	w *world
	t *testing.T
	r *bufio.Reader
}

func (w *world) dial(to net.Addr) *client {
	w.t.Helper()
	c, err := net.Dial(to.Network(), to.String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		w.t.Fatal(err)
	}
	return &client{c, w, w.t, bufio.NewReader(c)}
}

func (c *client) send(text string) {
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// status reads an answer; 0: the connection was closed instead.
func (c *client) status() (int, string) {
	r, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, ""
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func (c *client) ask(want int) {
	c.t.Helper()
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	got, body := c.status()
	if got != want {
		c.t.Errorf("%d %s, want %d", got, body, want)
	}
	c.w.eventually("the connection is idle", c.w.idle)
}

// get asks on a new connection, as clients do: they send before they read.
func (w *world) get(to net.Addr) (int, string) {
	c := w.dial(to)
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	return c.status()
}

// busy begins a request whose body does not come, and waits until it is at work.
func (w *world) busy(to net.Addr, working <-chan bool) *client {
	c := w.dial(to)
	c.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n")
	select {
	case <-working:
	case <-time.After(patience):
		w.t.Fatal("a connection was not let in")
	}
	return c
}

// Given a client that has as many connections as one may have, all at work, then another of its own is refused with the
// reason, and somebody else's is let in; when one of its own is idle, that makes room.
func TestOneClientHasItsShare(t *testing.T) {
	working := make(chan bool)
	w := serve(t, Bounds{Total: 10, PerClient: 2}, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			working <- true
		}
		_, _ = io.Copy(io.Discard, r.Body)
	})
	idle := w.dial(w.port)
	idle.ask(http.StatusOK)
	first := w.busy(w.port, working) // the idle one stays: there is room for two
	second := w.busy(w.port, working)
	if w.held() != 2 {
		t.Errorf("%d connections, want 2: the idle one gives way", w.held())
	}
	got, why := w.get(w.port)
	if got != http.StatusTooManyRequests || !strings.Contains(why, "2 connections") {
		t.Errorf("a third connection of a client: %d %s", got, why)
	}
	if many, all := w.gate.Refused.TooMany.Load(), w.gate.Refused.Unavailable.Load(); many != 1 || all != 0 {
		t.Errorf("%d and %d refusals were counted, not 1 and 0", many, all)
	}
	if !strings.Contains(w.log.String(), "the loopback") {
		t.Errorf("the log says %s", w.log)
	}
	w.dial(w.unix).ask(http.StatusOK)
	first.send("12345")
	second.send("12345")
	for _, c := range []*client{first, second} {
		if got, _ := c.status(); got != http.StatusOK {
			t.Errorf("a connection that was at work got %d", got)
		}
	}
}

// Given as many connections as there may be in all, then a new client gets through where an idle one can make room, and
// is refused with the reason where all are at work.
func TestAllClientsTogetherHaveABound(t *testing.T) {
	working := make(chan bool)
	w := serve(t, Bounds{Total: 2}, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			working <- true
		}
		_, _ = io.Copy(io.Discard, r.Body)
	})
	idle := w.dial(w.unix)
	idle.ask(http.StatusOK)
	w.busy(w.port, working)
	w.busy(w.port, working)
	if w.held() != 2 {
		t.Errorf("%d connections, want 2: the idle one gives way", w.held())
	}
	got, why := w.get(w.unix)
	if got != http.StatusServiceUnavailable || !strings.Contains(why, "2 connections") {
		t.Errorf("a third connection: %d %s", got, why)
	}
}

// Given as many connections as there may be, all at work, when the bounds change, then the next connection is judged by
// the new ones.
func TestBoundsMayChange(t *testing.T) {
	working := make(chan bool)
	w := serve(t, Bounds{Total: 2}, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			working <- true
		}
		_, _ = io.Copy(io.Discard, r.Body)
	})
	w.busy(w.unix, working)
	w.busy(w.unix, working)
	if got, why := w.get(w.unix); got != http.StatusServiceUnavailable {
		t.Errorf("a third connection: %d %s", got, why)
	}
	w.gate.Bound(Bounds{Total: 3})
	w.busy(w.unix, working)
	got, why := w.get(w.unix)
	if got != http.StatusServiceUnavailable || !strings.Contains(why, "3 connections") {
		t.Errorf("a fourth connection: %d %s", got, why)
	}
}

// Given as many connections by a port as ports may have, all at work, and from several addresses of the loopback, then
// the unix socket has its share still, and what is idle there stays.
func TestTheUnixSocketHasAShareOfItsOwn(t *testing.T) {
	working := make(chan bool)
	w := serve(t, Bounds{Total: 8, PerClient: 7}, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			working <- true
		}
		_, _ = io.Copy(io.Discard, r.Body)
	})
	idle := w.dial(w.unix)
	idle.ask(http.StatusOK)
	for range 6 {
		w.busy(w.port, working)
	}
	if got, why := w.get(w.port); got != http.StatusServiceUnavailable {
		t.Errorf("a seventh by the port: %d %s", got, why)
	}
	if many, all := w.gate.Refused.TooMany.Load(), w.gate.Refused.Unavailable.Load(); many != 0 || all != 1 {
		t.Errorf("%d and %d refusals were counted, not 0 and 1", many, all)
	}
	idle.ask(http.StatusOK)
	w.dial(w.unix).ask(http.StatusOK)
}

// Whoever asks from several addresses of the loopback is one client.
func TestTheLoopbackIsOneClient(t *testing.T) {
	working := make(chan bool)
	w := serve(t, Bounds{Total: 10, PerClient: 2}, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			working <- true
		}
		_, _ = io.Copy(io.Discard, r.Body)
	})
	w.busy(w.port, working)
	w.busy(w.port, working)
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	nc, err := d.DialContext(t.Context(), "tcp", w.port.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil || answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("from 127.0.0.2: %+v, %v", answer, err)
	}
}

// Given a client that has as many connections as one may have, then each further one is answered so, however many came
// before it.
func TestEveryRefusalSaysWhy(t *testing.T) {
	working := make(chan bool)
	w := serve(t, Bounds{Total: 10, PerClient: 1}, func(_ http.ResponseWriter, r *http.Request) {
		working <- true
		_, _ = io.Copy(io.Discard, r.Body)
	})
	w.busy(w.port, working)
	for i := range 2 * maxLingering {
		c := w.dial(w.port)
		c.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if got, why := c.status(); got != http.StatusTooManyRequests || why == "" {
			t.Fatalf("refusal %d: %d %q", i, got, why)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Given as many refused clients that linger as may, then the next one is hung up on at once.
func TestOnlySoManyRefusedClientsLinger(t *testing.T) {
	working := make(chan bool)
	w := serve(t, Bounds{Total: 10, PerClient: 1}, func(_ http.ResponseWriter, r *http.Request) {
		working <- true
		_, _ = io.Copy(io.Discard, r.Body)
	})
	w.busy(w.port, working)
	for range maxLingering {
		w.gate.lingering <- struct{}{}
	}
	c := w.dial(w.port)
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it was not hung up on: %v", err)
	}
}

// Given as many connections as there may be, on which nobody has shown that he may use the API: silent ones, and such
// as begin a request and do not end it. Then whoever may is served all the same, and keeps the connection: the oldest
// of the others gives way, one for each.
func TestWhoMayNotUseTheAPIKeepsNobodyOut(t *testing.T) {
	working := make(chan bool)
	for name, b := range map[string]Bounds{"of one client": {Total: 8, PerClient: 4}, "in all": {Total: 5}} {
		w := serve(t, b, func(_ http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				working <- true
			}
			_, _ = io.Copy(io.Discard, r.Body)
		})
		var idlers []*client
		for i := range 4 {
			c := w.dial(w.port)
			if i%2 == 1 {
				c.send("PUT / HTTP/1.1\r\nHost: localhost\r\nX-Nomad-Token: wr")
			}
			w.eventually(name+": it is let in", func() bool { return w.held() == i+1 })
			idlers = append(idlers, c)
		}
		kept := w.busy(w.port, working)
		if _, err := idlers[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the oldest did not give way: %v", name, err)
		}
		for range 2 * len(idlers) {
			w.dial(w.port)
		}
		if got, why := w.get(w.port); got != http.StatusOK {
			t.Errorf("%s: a client that may was answered %d %s", name, got, why)
		}
		kept.send("12345")
		if got, _ := kept.status(); got != http.StatusOK {
			t.Errorf("%s: the one at work gave way: %d", name, got)
		}
	}
}

// Given a request that is not admitted, then its connection ends with the answer: requests that are refused keep none.
func TestARefusedRequestEndsItsConnection(t *testing.T) {
	w := serve(t, Bounds{}, func(http.ResponseWriter, *http.Request) { t.Error("it was let through") })
	c := w.dial(w.port)
	c.send("GET / HTTP/1.1\r\nHost: localhost\r\nX-Nomad-Token: wrong\r\n\r\n")
	if got, _ := c.status(); got != http.StatusForbidden {
		t.Errorf("answered %d", got)
	}
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection stays: %v", err)
	}
	w.eventually("nothing is held of it", func() bool { return w.held() == 0 })
}

// pipes is a listener whose connections are in memory, for bubbles of time.
type pipes struct {
	accept chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "in memory", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.accept <- there
	return here
}

// inMemory plays a story with a server behind a gate, in a bubble of time.
func inMemory(t *testing.T, b Bounds, handle http.HandlerFunc, story func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- New(b, slog.New(slog.DiscardHandler)).Serve(ctx, p, guarded(handle)) }()
		story(t, p)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Given a client that is refused, when it has not asked yet, then nothing is said; when it has, it is answered
// with the reason. Go's client takes an answer that comes earlier for a broken connection, and can give none.
func TestARefusalWaitsForTheQuestion(t *testing.T) {
	inMemory(t, Bounds{Total: 1}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		func(t *testing.T, p *pipes) {
			const request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
			first := p.dial()
			defer first.Close()
			if _, err := io.WriteString(first, request); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			second := p.dial()
			defer second.Close()
			said := make(chan byte, 1)
			answer := make(chan *http.Response, 1)
			go func() {
				r := bufio.NewReader(second)
				b, _ := r.ReadByte()
				said <- b
				_ = r.UnreadByte()
				a, _ := http.ReadResponse(r, nil)
				answer <- a
			}()
			synctest.Wait()
			if len(said) > 0 {
				t.Error("it was answered before it asked")
			}
			if _, err := io.WriteString(second, request[:1]); err != nil {
				t.Fatal(err)
			}
			if a := <-answer; a == nil || a.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("it was answered %+v", a)
			}
		})
}

// Given a client that is refused and asks nothing, then it is hung up on.
func TestARefusedClientThatAsksNothingIsHungUpOn(t *testing.T) {
	inMemory(t, Bounds{Total: 1}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		func(t *testing.T, p *pipes) {
			first := p.dial()
			defer first.Close()
			if _, err := io.WriteString(first, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			second := p.dial()
			defer second.Close()
			if got, err := io.ReadAll(second); err != nil || len(got) > 0 {
				t.Errorf("%q, %v", got, err)
			}
		})
}

// Given a client that begins a request and does not end its header, or sends nothing at all, then its connection is
// closed.
func TestAHeaderThatStopsComingIsNotWaitedFor(t *testing.T) {
	for _, begun := range []string{"", "GET / HTTP/1.1\r\nHost: local"} {
		inMemory(t, Bounds{}, func(http.ResponseWriter, *http.Request) { t.Error("a request came") },
			func(t *testing.T, p *pipes) {
				c := p.dial()
				defer c.Close()
				if _, err := io.WriteString(c, begun); err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
					t.Errorf("%q, %v", got, err)
				}
			})
	}
}

// Given as many connections as there may be, when one is closed, then the next is let in.
func TestAConnectionThatEndedMakesWay(t *testing.T) {
	working := make(chan bool)
	w := serve(t, Bounds{Total: 1, PerClient: 1}, func(_ http.ResponseWriter, r *http.Request) {
		working <- true
		_, _ = io.Copy(io.Discard, r.Body)
	})
	for range 3 {
		c := w.busy(w.port, working)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		w.eventually("the connection has ended", func() bool { return w.held() == 0 })
	}
}

// Given a request whose body stops coming, then it ends and its connection is closed; one that waits for its answer
// after its body came may wait.
func TestABodyThatStopsComingIsNotWaitedFor(t *testing.T) {
	answered := make(chan error, 1)
	release := make(chan bool)
	w := serve(t, Bounds{}, func(w http.ResponseWriter, r *http.Request) {
		Body(w, r, pause)
		_, err := io.Copy(io.Discard, r.Body)
		answered <- err
		if err == nil {
			<-release
			if r.Context().Err() != nil {
				t.Error("a request that waits for its answer was ended")
			}
		}
	})
	slow := w.dial(w.port)
	slow.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n1")
	if err := <-answered; err == nil {
		t.Error("a body of one byte of five was read whole")
	}
	_, _ = slow.status()
	if n, err := slow.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d more bytes came from a connection that should be closed", n)
	}
	patient := w.dial(w.port)
	patient.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12345")
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	next := w.dial(w.port) // a whole pause of another's goes by
	next.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n1")
	if err := <-answered; err == nil {
		t.Error("a body of one byte of five was read whole")
	}
	release <- true
	if got, _ := patient.status(); got != http.StatusOK {
		t.Errorf("a request that waited for its answer got %d", got)
	}
}

// sender is a body of which a piece comes now and then, on a connection that has a deadline.
type sender struct {
	http.ResponseWriter
	piece, left int
	every       time.Duration
	deadline    time.Time
}

func (s *sender) SetReadDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *sender) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(s.every)
	if !s.deadline.IsZero() && time.Now().After(s.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	n := min(s.piece, s.left, len(p))
	s.left -= n
	return n, nil
}

func (*sender) Close() error { return nil }

// Given a body of which a byte comes each second, then it ends as if none came. One that comes at the least rate may
// take longer than a pause, and what its reader does meanwhile is not counted.
func TestABodyThatTricklesIsNotWaitedFor(t *testing.T) {
	read := func(s *sender, after time.Duration) (err error) {
		synctest.Test(t, func(*testing.T) {
			r := &http.Request{Body: s, ContentLength: -1}
			Body(s, r, BodyPause)
			for begun := time.Now(); err == nil; time.Sleep(after) {
				if _, err = r.Body.Read(make([]byte, leastRate)); time.Since(begun) > 4*BodyPause && after == 0 {
					err = errors.New("it is waited for")
				}
			}
		})
		return err
	}
	if err := read(&sender{piece: 1, left: 1 << 20, every: time.Second}, 0); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a byte a second: %v", err)
	}
	if err := read(&sender{piece: leastRate, left: 100 * leastRate, every: time.Second}, 0); !errors.Is(err, io.EOF) {
		t.Errorf("the least rate: %v", err)
	}
	if err := read(&sender{piece: 100, left: 1000}, time.Minute); !errors.Is(err, io.EOF) {
		t.Errorf("one that came at once, and is read late: %v", err)
	}
}

// A handler that does not read what its client does not send ends all the same.
func TestABodyThatNobodyReadsIsNotWaitedFor(t *testing.T) {
	w := serve(t, Bounds{}, func(w http.ResponseWriter, r *http.Request) { Body(w, r, pause) })
	c := w.dial(w.port)
	c.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n1")
	if got, _ := c.status(); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d more bytes came from a connection that should be closed", n)
	}
}

// Given how many files an agent may have open, then connections leave at least half of them, and there are some.
func TestWithin(t *testing.T) {
	for descriptors, want := range map[uint64]Bounds{
		0:       {64, 32},
		1000:    {250, 125},
		1024:    {256, 128},
		4096:    {1792, 896},
		20000:   {4096, 2048},
		1 << 40: {4096, 2048},
	} {
		if got := Within(descriptors); got != want {
			t.Errorf("%d descriptors: %+v, want %+v", descriptors, got, want)
		}
	}
}

// Given a listener that cannot accept, then that is said once, and its end is not.
func TestAnAcceptThatFailsIsSaid(t *testing.T) {
	log := &text{}
	g := New(Bounds{}, slog.New(slog.NewTextHandler(log, nil)))
	l := &listener{Listener: broken{errors.New("too many open files")}, gate: g}
	for range 3 {
		if _, err := l.Accept(); err == nil {
			t.Fatal("no error")
		}
	}
	if n := strings.Count(log.String(), "too many open files"); n != 1 {
		t.Errorf("said %d times: %s", n, log)
	}
	ended := &listener{
		Listener: broken{net.ErrClosed},
		gate:     New(Bounds{}, slog.New(slog.NewTextHandler(log, nil))),
	}
	if _, err := ended.Accept(); err == nil || strings.Contains(log.String(), net.ErrClosed.Error()) {
		t.Errorf("%v; the log says %s", err, log)
	}
}

type broken struct{ err error }

func (b broken) Accept() (net.Conn, error) { return nil, b.err }
func (b broken) Close() error              { return nil }
func (b broken) Addr() net.Addr            { return &net.TCPAddr{} }
