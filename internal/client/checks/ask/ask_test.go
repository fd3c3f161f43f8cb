package ask_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"berth/internal/client/checks/ask"
	"berth/internal/derive/service"
	"berth/internal/model/job"
)

func check(address, typ string) *service.Check {
	return &service.Check{Address: address, Of: &job.ServiceCheck{Type: typ, Timeout: 5 * time.Second}}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestByTCP(t *testing.T) {
	l := listen(t)
	if a := ask.Ask(t.Context(), check(l.Addr().String(), job.CheckTCP)); !a.Passed || a.At.IsZero() {
		t.Errorf("a port that is open: %+v", a)
	}
	_ = l.Close()
	if a := ask.Ask(t.Context(), check(l.Addr().String(), job.CheckTCP)); a.Passed ||
		!strings.Contains(a.Output, "connection refused") {
		t.Errorf("a port that is closed: %+v", a)
	}
}

// TestByHTTP: which answers pass, what is sent, and what is shown.
func TestByHTTP(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 4)
		n, _ := r.Body.Read(body)
		if r.Method != "POST" || r.Header.Get("X-A") != "1" || r.Host != "shop.example" || string(body[:n]) != "ping" ||
			r.URL.RawQuery != "q=1" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusFound)
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("no \x1b[31mdisk\x00\n" + strings.Repeat("ä", 1<<20)))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	c := check(s.Listener.Addr().String(), job.CheckHTTP)
	c.Path, c.Body = "ok?q=1", "ping"
	c.Of.Method = "POST"
	c.Header = map[string][]string{"X-A": {"1"}, "Host": {"shop.example"}}
	if a := ask.Ask(t.Context(), c); !a.Passed || a.StatusCode != 200 || a.Output != "http ok: 200 OK" {
		t.Errorf("%+v", a)
	}
	c = check(c.Address, job.CheckHTTP)
	c.Path = "/elsewhere"
	if a := ask.Ask(t.Context(), c); !a.Passed || a.StatusCode != 302 || elsewhere > 0 {
		t.Errorf("it followed %d times: %+v", elsewhere, a)
	}
	c.Path = "/bad"
	a := ask.Ask(t.Context(), c)
	if a.Passed || a.StatusCode != 503 || !strings.HasPrefix(a.Output, "503 Service Unavailable\nno [31mdisk\nä") ||
		len(a.Output) > ask.MaxOutput+4 || strings.ContainsAny(a.Output, "\x1b\x00") {
		t.Errorf("%d bytes: %.80q", len(a.Output), a.Output)
	}
	c.Path = "/none"
	if a := ask.Ask(t.Context(), c); a.Passed || a.StatusCode != 404 {
		t.Errorf("%+v", a)
	}
}

// TestABodyWithoutAnEndIsNotRead: of what a service answers no more is read than is shown.
func TestABodyWithoutAnEndIsNotRead(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		for {
			if _, err := w.Write([]byte(strings.Repeat("x", 1<<12))); err != nil {
				return // who asked has heard enough
			}
		}
	}))
	defer s.Close()
	a := ask.Ask(t.Context(), check(s.Listener.Addr().String(), job.CheckHTTP))
	if a.Passed || a.StatusCode != 503 || !strings.HasPrefix(a.Output, "503 Service Unavailable\nxxx") ||
		len(a.Output) > ask.MaxOutput+4 {
		t.Errorf("%d bytes: %.80q", len(a.Output), a.Output)
	}
}

// TestByTLS: a certificate that nobody vouches for does not pass, unless the job says that it need not; and the service
// is asked by the name that the job gives it.
func TestByTLS(t *testing.T) {
	var name string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		name = r.TLS.ServerName
	}))
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	c := check(s.Listener.Addr().String(), job.CheckHTTP)
	c.Of.Protocol = "https"
	if a := ask.Ask(t.Context(), c); a.Passed || !strings.Contains(a.Output, "certificate") {
		t.Errorf("%+v", a)
	}
	c.Of.TLSSkipVerify = true
	c.Of.TLSServerName = "shop.example"
	if a := ask.Ask(t.Context(), c); !a.Passed || name != "shop.example" {
		t.Errorf("%+v, by the name %q", a, name)
	}
}

// TestWhoNeverAnswers: a service that accepts and says nothing fails after the timeout, by HTTP and by gRPC, and so
// does one that sends and never ends.
func TestWhoNeverAnswers(t *testing.T) {
	silent := listen(t)
	go func() {
		var held []net.Conn // one that nobody holds is closed when it is collected, and that is an answer
		for {
			c, err := silent.Accept()
			if err != nil {
				break
			}
			held = append(held, c)
		}
		for _, c := range held {
			_ = c.Close() // nothing was said on it
		}
	}()
	for _, typ := range []string{job.CheckHTTP, job.CheckGRPC} {
		c := check(silent.Addr().String(), typ)
		c.Of.Timeout = 50 * time.Millisecond
		if a := ask.Ask(t.Context(), c); a.Passed || !strings.Contains(a.Output, "did not answer within the timeout") &&
			!strings.Contains(a.Output, "DeadlineExceeded") {
			t.Errorf("%s: %+v", typ, a)
		}
	}
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		for r.Context().Err() == nil {
			_, _ = w.Write(make([]byte, 1<<16))
		}
	}))
	defer endless.Close()
	a := ask.Ask(t.Context(), check(endless.Listener.Addr().String(), job.CheckHTTP))
	if a.Passed || a.StatusCode != 500 {
		t.Errorf("%+v", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := ask.Ask(ctx, check(silent.Addr().String(), job.CheckHTTP)); a.Passed {
		t.Errorf("asked by nobody: %+v", a)
	}
}

func TestByGRPC(t *testing.T) {
	l := listen(t)
	h, s := health.NewServer(), grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, h)
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	h.SetServingStatus("db", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	c := check(l.Addr().String(), job.CheckGRPC)
	if a := ask.Ask(t.Context(), c); !a.Passed {
		t.Errorf("%+v", a)
	}
	c.Of.GRPCService = "db"
	if a := ask.Ask(t.Context(), c); a.Passed || a.Output != "it says NOT_SERVING" {
		t.Errorf("%+v", a)
	}
	c.Of.GRPCService = "nobody"
	if a := ask.Ask(t.Context(), c); a.Passed || !strings.Contains(a.Output, "unknown service") {
		t.Errorf("%+v", a)
	}
	c.Of.GRPCUseTLS = true
	if a := ask.Ask(t.Context(), c); a.Passed {
		t.Errorf("without TLS it answers over TLS: %+v", a)
	}
}
