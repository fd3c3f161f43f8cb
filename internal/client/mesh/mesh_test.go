package mesh_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"berth/internal/client/mesh"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestWhatIsSaidAtTheSocketIsHeardAtConsul: given a relay, then both sides hear what the other says, also after one of
// them has said all; and when the relay ends, so do its connections.
func TestWhatIsSaidAtTheSocketIsHeardAtConsul(t *testing.T) {
	consul, socket := listen(t), listen(t)
	defer func() { _ = consul.Close() }()
	dial := func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", consul.Addr().String())
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mesh.Relay(dial, slog.New(slog.DiscardHandler))(ctx, socket) }()

	down, err := net.Dial("tcp", socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	up, err := consul.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(down, "question"); err != nil {
		t.Fatal(err)
	}
	if err := down.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(up); err != nil || string(text) != "question" {
		t.Fatalf("Consul heard %q, %v", text, err)
	}
	if _, err := io.WriteString(up, "answer"); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 6)
	if _, err := io.ReadFull(down, text); err != nil || string(text) != "answer" {
		t.Fatalf("the proxy heard %q, %v", text, err)
	}
	cancel()
	defer func() { _ = up.Close() }()
	_ = down.SetReadDeadline(time.Now().Add(30 * time.Second)) // it would hang
	if _, err := down.Read(text); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection outlives the relay: %v", err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

// TestAProxyHearsAtOnceThatConsulIsAway: a connection that leads nowhere ends, and the next one is tried anew.
func TestAProxyHearsAtOnceThatConsulIsAway(t *testing.T) {
	socket := listen(t)
	away := func(context.Context) (net.Conn, error) { return nil, errors.New("away") }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mesh.Relay(away, slog.New(slog.DiscardHandler))(ctx, socket) }()
	for range 3 {
		c, err := net.Dial("tcp", socket.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Fatal("somebody answered")
		}
		_ = c.Close()
	}
	cancel()
	<-ended
}

// described is an agent of Consul that knows a version of Envoy.
type described struct{ version string }

func (d described) Attributes() map[string]string { return map[string]string{"consul.version": "1"} }
func (d described) Changed() <-chan struct{}      { return nil }
func (d described) Envoy() string                 { return d.version }

// TestANodeSaysWhichEnvoyItsConsulKnows: in an attribute, and as the image of proxies.
func TestANodeSaysWhichEnvoyItsConsulKnows(t *testing.T) {
	for version, image := range map[string]string{"1.35.3": "docker.io/envoyproxy/envoy:v1.35.3", "": ""} {
		d := mesh.Described{Consul: described{version}, Programs: map[string]string{"consul.program": "/c"}}
		got := d.Attributes()
		if got["consul.envoy"] != version || got["consul.program"] != "/c" || got["consul.version"] != "1" ||
			d.Meta()["connect.sidecar_image"] != image {
			t.Errorf("%q: %v, %v", version, got, d.Meta())
		}
	}
}
