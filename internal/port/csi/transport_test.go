package csi_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"berth/internal/base/fault"
	"berth/internal/port/csi"
)

// plain is a plugin that only says its name; it notes the authority it is called by and can be slow.
type plain struct {
	pb.UnimplementedIdentityServer
	mu        sync.Mutex
	authority []string
	answers   func() // what happens before it answers a probe; nil: nothing
	slow      chan struct{}
	entered   chan struct{}
}

func (p *plain) GetPluginInfo(context.Context, *pb.GetPluginInfoRequest) (*pb.GetPluginInfoResponse, error) {
	return &pb.GetPluginInfoResponse{Name: "plain.example", VendorVersion: "1"}, nil
}

func (p *plain) Probe(ctx context.Context, _ *pb.ProbeRequest) (*pb.ProbeResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p.mu.Lock()
	p.authority = md.Get(":authority")
	p.mu.Unlock()
	if p.answers != nil {
		p.answers()
	}
	if p.slow != nil {
		close(p.entered)
		<-p.slow
	}
	return &pb.ProbeResponse{}, nil
}

func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	ok(t, err)
	t.Cleanup(func() { ok(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "csi.sock")
}

func serve(t *testing.T, p *plain) (string, *grpc.Server) {
	t.Helper()
	socket := socketDir(t)
	l, err := net.Listen("unix", socket)
	ok(t, err)
	s := grpc.NewServer()
	pb.RegisterIdentityServer(s, p)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return socket, s
}

func connect(t *testing.T, socket string) *csi.Client {
	t.Helper()
	c, err := csi.Dial(t.Context(), socket, csi.Options{Plugin: "p"})
	ok(t, err)
	t.Cleanup(func() { ok(t, c.Close()) })
	return c
}

func TestTheAuthorityIsLocalhost(t *testing.T) {
	p := &plain{}
	socket, _ := serve(t, p)
	r, err := connect(t, socket).Probe(t.Context())
	if err != nil || r != csi.Ready {
		t.Fatalf("an absent readiness means ready: %v, %v", r, err)
	}
	if len(p.authority) != 1 || p.authority[0] != "localhost" {
		t.Errorf("authority = %q", p.authority)
	}
}

func TestGoingAwayEndsTheConnectionAndLetsCallsFinish(t *testing.T) {
	p := &plain{slow: make(chan struct{}), entered: make(chan struct{})}
	socket, s := serve(t, p)
	c := connect(t, socket)
	result := make(chan error, 1)
	go func() { _, err := c.Probe(context.Background()); result <- err }()
	<-p.entered
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.GracefulStop() }()
	deadline := time.Now().Add(time.Minute)
	for { // the news takes a moment; then new calls are refused unsent
		_, err := c.Probe(expired(t))
		if e, is := csi.AsError(err); is && !e.Sent && fault.Has(err, fault.Unavailable) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a closing plugin is still called: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	close(p.slow)
	ok(t, <-result)
	<-stopped
	select {
	case <-c.Lost():
	case <-time.After(time.Minute):
		t.Error("the end of the connection is no event")
	}
}

// expired is a context that is over, so that a call under it is never sent.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestWhatDoesNotSpeakGRPCIsNamedAsSuch(t *testing.T) {
	for name, talk := range map[string]func(net.Conn){
		"garbage": func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); _ = c.Close() },
		"closes":  func(c net.Conn) { _ = c.Close() },
		"silence": func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			socket := socketDir(t)
			l, err := net.Listen("unix", socket)
			ok(t, err)
			var conns []net.Conn
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					conns = append(conns, c)
					talk(c)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // runs out without a word of gRPC
			defer cancel()
			_, err = csi.Dial(ctx, socket, csi.Options{Plugin: "p"})
			if !fault.Has(err, fault.Unavailable) || !strings.Contains(err.Error(), "does not speak gRPC") {
				t.Errorf("err = %v", err)
			}
			_ = l.Close()
			<-done
			for _, c := range conns {
				_ = c.Close()
			}
		})
	}
}

func TestAStaleSocketIsUnavailable(t *testing.T) {
	socket := socketDir(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	ok(t, err)
	l.SetUnlinkOnClose(false)
	ok(t, l.Close())
	if _, err := csi.Dial(t.Context(), socket, csi.Options{Plugin: "p"}); !fault.Has(err, fault.Unavailable) {
		t.Errorf("err = %v", err)
	}
}
