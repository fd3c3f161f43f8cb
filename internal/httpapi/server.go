// Package httpapi owns the HTTP surface: one route table, wire-compatible with what clients of this API know. It
// translates shapes, calls the wire, and knows neither servers nor nodes from the inside. Only the agent imports it.
package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/wire"
)

// maxBody bounds a request's body in bytes. A job file of this size is no job file.
const maxBody = 8 << 20

// Self describes the agent that serves, for GET /v1/agent/self.
type Self interface {
	// Describe returns the agent's effective configuration (no secrets) and its statistics by group.
	Describe() (config map[string]any, stats map[string]map[string]string)
	// NodeID is the id of the node in this agent, or empty.
	NodeID() ids.Node
	// Health returns what is wrong with the halves that this agent runs; nil errors are healthy, absent halves missing.
	Health(ctx context.Context) map[string]error
}

// LogSource streams the agent's own log; the agent implements it.
type LogSource interface {
	// Follow calls each with every line at or above level until ctx ends.
	Follow(ctx context.Context, level slog.Level, json bool, each func(line []byte) error) error
}

// Config wires a server.
type Config struct {
	Servers wire.Conn // calls to the server half; Run methods are forwarded to nodes by it
	Region  string
	Self    Self
	Logs    LogSource
	Log     *slog.Logger
	// Hosts are the names and addresses by which clients may call this agent, besides those of the loopback.
	Hosts []string
}

// Server answers HTTP.
type Server struct {
	cfg Config
	mux *http.ServeMux
}

// New builds the route table. It starts nothing.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, mux: http.NewServeMux()}
	for _, r := range slices.Concat(routes, unbuiltRoutes()) {
		s.mux.HandleFunc(r.method+" "+r.path, s.wrap(r))
		if r.method == http.MethodPut {
			s.mux.HandleFunc(http.MethodPost+" "+r.path, s.wrap(r))
		}
	}
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/ui/", http.StatusTemporaryRedirect)
	})
	s.mux.HandleFunc("GET /ui/", s.noUI)
	return s
}

// Run serves the listeners until ctx ends. Open streams are cut then; requests under way get a short time to end.
func (s *Server) Run(ctx context.Context, listeners ...net.Listener) error {
	g, gctx := lifecycle.NewGroup(ctx)
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug), BaseContext: func(net.Listener) context.Context { return gctx }}
	for _, l := range listeners {
		g.Go("http "+l.Addr().String(), func() error {
			if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	g.Go("shutdown", func() error {
		<-gctx.Done()
		sctx, cancel := context.WithTimeout(context.WithoutCancel(gctx), 500*time.Millisecond)
		defer cancel()
		if h.Shutdown(sctx) != nil {
			return h.Close()
		}
		return nil
	})
	return g.Wait()
}

// Handler is the whole surface with its guards, for tests and listeners.
func (s *Server) Handler() http.Handler {
	guard := http.NewCrossOriginProtection()
	return s.checkHost(guard.Handler(http.HandlerFunc(s.serve)))
}

// serve answers unknown paths as clients expect: 404 without a body; and a known path with another verb with 405.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if _, pattern := s.mux.Handler(r); pattern == "" && strings.HasPrefix(r.URL.Path, "/") {
		for _, m := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			probe := r.Clone(r.Context())
			probe.Method = m
			if _, p := s.mux.Handler(probe); p != "" {
				http.Error(w, "Invalid method", http.StatusMethodNotAllowed)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// checkHost refuses names that are not this agent's, so that a web page cannot reach it by rebinding a name of its own
// to the loopback address.
func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.Trim(host, "[]")
		if host == "" || strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback() || s.known(host) {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, "the host name "+host+" is not this agent's", http.StatusForbidden)
	})
}

func (s *Server) known(host string) bool {
	for _, h := range s.cfg.Hosts {
		if strings.EqualFold(h, host) {
			return true
		}
	}
	return false
}

func (s *Server) noUI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte("<!doctype html><title>Berth</title><p>This agent serves no web pages. Use the command line: <code>berth status</code>.\n"))
}

// route is one line of the table.
type route struct {
	method, path string
	// handle answers with a value that becomes JSON and the indexes of what was read; or
	handle func(*Server, *request) (any, error)
	// stream writes the reply itself.
	stream func(*Server, http.ResponseWriter, *request) error
}

// wrap turns a route into a handler.
func (s *Server) wrap(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, hr *http.Request) {
		hr.Body = http.MaxBytesReader(w, hr.Body, maxBody)
		w.Header().Set("Vary", "Accept-Encoding")
		req := &request{Request: hr, ns: namespaceOf(hr)}
		if region := req.arg("region"); region != "" && region != "global" && region != s.cfg.Region {
			s.fail(w, hr, noRegion())
			return
		}
		if r.stream != nil {
			if err := r.stream(s, w, req); err != nil {
				s.fail(w, hr, err)
			}
			return
		}
		v, err := r.handle(s, req)
		if err != nil {
			s.fail(w, hr, err)
			return
		}
		s.reply(w, req, v)
	}
}

// fail writes an error as plain text. The kind decides the status, the fault's text is the body.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var coded *statusError
	status := fault.KindOf(err).HTTPStatus()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &coded):
		status = coded.status
	case errors.As(err, &tooLarge):
		status = http.StatusRequestEntityTooLarge
	case r.Context().Err() != nil:
		return // nobody is there to read it
	}
	s.cfg.Log.Debug("request failed", "method", r.Method, logkey.Path, r.URL.Path, "status", status, logkey.Error, err)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(err.Error()))
}

// statusError is an error whose status and text clients rely on.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// noRegion is the answer for a region that cannot be reached: there is one.
func noRegion() error { return &statusError{http.StatusInternalServerError, "No path to region"} }

func badRequest(text string) error { return &statusError{http.StatusBadRequest, text} }
func missing(text string) error    { return &statusError{http.StatusNotFound, text} }
