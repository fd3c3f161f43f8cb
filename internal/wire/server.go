package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
)

// Server answers methods on any number of listeners. Register handlers first, then Run.
type Server struct {
	services map[string]*grpc.ServiceDesc
	mu       map[string]bool
	// admit and record are nil where everybody may call everything, and nothing is recorded.
	admit  func(ctx context.Context, method string, req any) error
	record func(ctx context.Context, method string, req any) (end func(error) error, err error)
	bounds []grpc.ServerOption
	log    *slog.Logger
}

// NewServer returns a server without methods, which logs the panics of those that it gets; log may be nil. It starts
// nothing.
func NewServer(log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{services: map[string]*grpc.ServiceDesc{}, mu: map[string]bool{}, log: log}
}

// Admit has every call judged by who makes it and what it asks for, before anything else is done with it.
func (s *Server) Admit(judge func(ctx context.Context, method string, req any) error) {
	s.admit = judge
}

// Record has every call that was admitted written down before it is made: where that fails it is not made. end, if
// there is one, is told how it ended; its error takes the place of a success.
func (s *Server) Record(record func(ctx context.Context, method string, req any) (end func(error) error, err error)) {
	s.record = record
}

// recorded makes a call within its record.
func (s *Server) recorded(ctx context.Context, method string, req any, call func() error) (err error) {
	if s.record == nil {
		return call()
	}
	end, err := s.record(ctx, method, req)
	if err != nil || end == nil {
		if err == nil {
			err = call()
		}
		return err
	}
	err = errUnended // of a call that panics
	defer func() {
		if failed := end(err); failed != nil && err == nil {
			err = failed
		}
	}()
	err = call()
	return err
}

var errUnended = errors.New("it did not come to its end")

// Bound narrows what a caller may send: the bytes of a message, and how many calls a connection may make at once.
func (s *Server) Bound(message, calls int) {
	s.bounds = []grpc.ServerOption{grpc.MaxRecvMsgSize(message), grpc.MaxConcurrentStreams(uint32(calls))}
}

// maxHeader bounds the header of a call, in bytes: it names the method, the person and those who passed it on.
const maxHeader = 64 << 10

func (s *Server) admitted(ctx context.Context, method string, req any) error {
	if s.admit == nil {
		return nil
	}
	return s.admit(ctx, method, req)
}

func methodPath(name string) string {
	noun, verb, ok := strings.Cut(name, ".")
	if !ok {
		panic("wire: method name without a dot: " + name)
	}
	return "/berth." + noun + "/" + verb
}

func (s *Server) service(path string) (*grpc.ServiceDesc, string) {
	if s.mu[path] {
		panic("wire: two handlers for " + path)
	}
	s.mu[path] = true
	svc, verb, _ := strings.Cut(path[1:], "/")
	d := s.services[svc]
	if d == nil {
		d = &grpc.ServiceDesc{ServiceName: svc, HandlerType: (*any)(nil)}
		s.services[svc] = d
	}
	return d, verb
}

func (s *Server) unary(path string, h func(context.Context, func(any) error) (any, error)) {
	d, verb := s.service(path)
	d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: verb,
		Handler: func(_ any, ctx context.Context, dec func(any) error, ic grpc.UnaryServerInterceptor) (any, error) {
			return s.guardUnary(ctx, path, func() (any, error) { return h(ctx, dec) })
		}})
}

func (s *Server) stream(path string, h func(grpc.ServerStream) error) {
	d, verb := s.service(path)
	d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: verb, ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, ss grpc.ServerStream) error { return s.guardStream(path, func() error { return h(ss) }) }})
}

// Methods lists the registered paths, for tests that compare them with the contract.
func (s *Server) Methods() []string {
	var out []string
	for p := range s.mu {
		out = append(out, p)
	}
	return out
}

// Run serves the listeners until ctx ends, then cuts open streams and returns when everything has stopped.
func (s *Server) Run(ctx context.Context, listeners ...net.Listener) error {
	gs := grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(handed{}),
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxSendMsgSize(MaxMessage),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.WaitForHandlers(true),
	}, append(attentive(), s.bounds...)...)...)
	for _, d := range s.services {
		gs.RegisterService(d, nil)
	}
	return serveAll(ctx, gs, listeners)
}

func (s *Server) guardUnary(ctx context.Context, path string, fn func() (any, error)) (resp any, err error) {
	defer func() {
		if v := recover(); v != nil {
			resp, err = nil, s.panicked(path, v)
		}
	}()
	resp, err = fn()
	if err != nil {
		return nil, toStatus(err)
	}
	return resp, ctx.Err()
}

func (s *Server) guardStream(path string, fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = s.panicked(path, v)
		}
	}()
	return toStatus(fn())
}

// panicked is what the caller hears of a panic. Where it happened is for those who run the server, not for callers.
func (s *Server) panicked(path string, v any) error {
	s.log.Error("a call panicked; this is a bug of Berth", "method", path, "panic", v, "stack", string(debug.Stack()))
	return toStatus(fault.WithHint(fault.New(fault.Internal, "serve", path, fmt.Sprintf("panic: %v", v)),
		"the log of the agent that answered says where"))
}
