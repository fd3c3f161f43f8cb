// Package httpapi owns the HTTP surface: one route table, wire-compatible with what clients of this API know. It
// translates shapes, calls the wire, and knows neither servers nor nodes from the inside. Only the agent imports it.
package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/httpapi/absent"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/audit"
	"berth/internal/httpapi/bodies"
	"berth/internal/httpapi/callers"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/conns"
	"berth/internal/httpapi/events"
	"berth/internal/httpapi/packed"
	"berth/internal/wire"
)

// maxBody bounds a request's body in bytes. A job file of this size is no job file.
const maxBody = 8 << 20

// Server answers HTTP.
type Server struct {
	cfg     Config
	gate    *conns.Gate
	bodies  *bodies.Store
	events  *events.Forms
	mux     *http.ServeMux
	poolMux *http.ServeMux // of poolPaths
}

func (s *Server) muxOf(path string) *http.ServeMux {
	if strings.HasPrefix(path, poolPaths) {
		return s.poolMux
	}
	return s.mux
}

// New builds the route table. It starts nothing.
func New(cfg Config) *Server {
	cfg.Servers = wire.Marked(cfg.Servers) // none is called but for whom a request is
	s := &Server{
		cfg:     cfg,
		gate:    conns.New(cfg.Bounds, cfg.Log),
		bodies:  bodies.New(),
		events:  events.NewForms(),
		mux:     http.NewServeMux(),
		poolMux: http.NewServeMux(),
	}
	for _, r := range slices.Concat(routes, absentRoutes()) {
		mux := s.muxOf(r.path)
		mux.HandleFunc(r.method+" "+r.path, s.wrap(r))
		if r.method == http.MethodPut {
			mux.HandleFunc(http.MethodPost+" "+r.path, s.wrap(r))
		}
	}
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/ui/", http.StatusTemporaryRedirect)
	})
	s.mux.HandleFunc("GET /ui/", absent.UI)
	return s
}

// Run serves the entries until ctx ends. Open streams are cut then; requests under way get a short time to end.
func (s *Server) Run(ctx context.Context, entries ...Entry) error {
	g, gctx := lifecycle.NewGroup(ctx)
	for _, e := range entries {
		g.Go("http "+e.Listener.Addr().String(), func() error {
			return s.gate.Serve(gctx, e.Listener, s.Handler(e.Guard))
		})
	}
	return g.Wait()
}

// ServeTask serves the socket of one task until ctx ends or the listener is closed. Tasks keep nobody out elsewhere.
func (s *Server) ServeTask(ctx context.Context, l net.Listener) error {
	return s.gate.Tasks().Serve(ctx, l, s.Handler(access.Task{}))
}

// Bound has other bounds of connections hold from now on.
func (s *Server) Bound(b conns.Bounds) { s.gate.Bound(b) }

// Handler is the whole surface behind a guard, for tests and listeners.
func (s *Server) Handler(guard access.Guard) http.Handler {
	origins := http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serve))
	return s.cfg.Audit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns.Body(w, r, conns.BodyPause)
		admitted, err := callers.Admit(guard, s.cfg.Servers, r)
		if err != nil {
			conns.Refused(w, r)
			w.Header()["Vary"] = access.Vary(r.URL.Path)
			s.fail(w, r, err)
			return
		}
		r = admitted
		caller := callers.Of(r)
		audit.Of(r.Context()).For(caller.Record, caller.Known)
		begun := time.Now()
		origins.ServeHTTP(w, r)
		s.cfg.Log.Debug("request", "method", r.Method, logkey.Path, r.URL.Path, logkey.Took,
			time.Since(begun))
	}))
}

// serve answers unknown paths as clients expect: 404 without a body; and a known path with another verb with 405.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if err := access.Legible(r); err != nil {
		s.fail(w, r, calls.BadRequest(err.Error()))
		return
	}
	absent.Serve(s.muxOf(r.URL.Path), w, r)
}

// wrap turns a route into a handler.
func (s *Server) wrap(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, hr *http.Request) {
		hr.Body = http.MaxBytesReader(audit.Under(w), hr.Body, cmp.Or(r.most, maxBody))
		w.Header()["Vary"] = access.Vary(r.path)
		ctx, release := s.bodies.With(hr.Context(), conns.Client(hr), func() error { return s.permit(hr, r.long) })
		defer release()
		hr = hr.WithContext(ctx)
		req := &calls.Request{Request: hr, Servers: s.cfg.Servers, Self: s.cfg.Self, Namespace: callers.Namespace(hr)}
		if err := audit.Of(hr.Context()).Begin(hr, r.method+" "+r.path, r.records, req.Namespace); err != nil {
			s.fail(w, hr, err)
			return
		}
		if region := req.Arg("region"); region != "" && region != "global" && region != s.cfg.Region {
			s.fail(w, hr, noRegion())
			return
		}
		if s.cfg.ListsOff && strings.HasPrefix(r.path, "/v1/acl/") {
			s.fail(w, hr, calls.BadRequest("ACL support disabled"))
			return
		}
		if err := s.permit(hr, r.asks); err != nil {
			s.fail(w, hr, err)
			return
		}
		if r.stream != nil {
			if err := r.stream(s, w, req); err != nil {
				s.fail(w, hr, err)
			}
			return
		}
		v, err := callers.Guard(s.cfg.Log, r.method, r.path, func() (any, error) { return r.value(s, req) })
		if err != nil {
			req.Indexes(w.Header())
			s.fail(w, hr, err)
			return
		}
		s.reply(w, req, v)
	}
}

// value is what a route answers with.
func (r route) value(s *Server, req *calls.Request) (any, error) {
	if r.answer != nil {
		return r.answer(s, req)
	}
	return r.handle(req)
}

// permit asks whether whom a request is for has what it needs.
func (s *Server) permit(r *http.Request, asks callers.Asks) error {
	if asks == nil || callers.Own(r) {
		return nil
	}
	return callers.Permit(r.Context(), s.cfg.Servers, asks(r, callers.Namespace(r))...)
}

// fail writes an error as plain text. The kind decides the status, the fault's text is the body. It is written also
// where the context has ended: that of an agent that stops has, whose caller waits, and would read silence as success.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	said := calls.Ended(r.Context(), err)
	status := statusOf(said)
	audit.Of(r.Context()).Failed(err, status) // of a client that has hung up what became of it is recorded, not said
	s.gate.Refused.Count(status)
	s.cfg.Log.Debug("request failed", "method", r.Method, logkey.Path, r.URL.Path, "status", status, logkey.Error, err)
	callers.Refused(w, r, err)
	if said != err { //nolint:errorlint // it is another one, or this
		w.Header().Set("Connection", "close") // whoever asks on would get no answer
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(said.Error()))
}

// statusOf is the status that says what is wrong.
func statusOf(err error) int {
	var coded *calls.Refused
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &coded):
		return coded.Status
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	}
	return fault.KindOf(err).HTTPStatus()
}

// noRegion is the answer for a region that cannot be reached: there is one.
func noRegion() error { return calls.Refuse(http.StatusInternalServerError, "No path to region") }

// reply writes a value as JSON with the headers that clients read. A None is an empty 200.
func (s *Server) reply(w http.ResponseWriter, r *calls.Request, v any) {
	h := w.Header()
	r.Indexes(h)
	if r.Next != "" {
		h.Set("X-Nomad-NextToken", r.Next)
	}
	if _, ok := v.(calls.None); ok {
		return
	}
	_, pretty := r.URL.Query()["pretty"]
	if err := packed.JSON(w, v, packed.Wanted(r.Request), pretty); err != nil && r.Context().Err() == nil {
		s.cfg.Log.Error("a reply could not be encoded", "path", r.URL.Path, "error", err)
	}
}
