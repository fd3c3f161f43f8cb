// Package playedplugin owns how the program of a test is a driver plugin or a device plugin as well, which behaves as
// the test says. What it says and does as one is the test's. Tests alone import it.
package playedplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// Mode is the variable that has the program be a plugin, and says how it behaves.
const Mode = "BERTH_TEST_PLUGIN"

// Main is that of a test whose program plays a plugin where it is started as one.
func Main(m *testing.M, play func(mode string) int) {
	if mode := os.Getenv(Mode); mode != "" {
		os.Exit(play(mode))
	}
	os.Exit(m.Run())
}

// Args are those of /bin/sh that start this program as a plugin: a plugin's configuration has no environment.
func Args(t testing.TB, mode string, words ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"-c", fmt.Sprintf("%s='%s' exec %s %s", Mode, mode, self, strings.Join(words, " "))}
}

// Line is the handshake of a plugin that is well; %s is its address.
const Line = "1|2|unix|%s|grpc|\n"

// Serve says line and serves until the program is ended; whether it says that it is serving is the test's.
func Serve(g *grpc.Server, line string, serving bool) int {
	l, err := net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "plugin1"))
	if err != nil {
		return 1
	}
	h := health.NewServer()
	if serving {
		h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(g, h)
	fmt.Printf(line, l.Addr())
	if g.Serve(l) != nil {
		return 1
	}
	return 0
}

// StateDir is the plugin's directory on the node, in which nobody tidies up beside its sockets.
func StateDir() string { return filepath.Dir(os.Getenv("PLUGIN_UNIX_SOCKET_DIR")) }

// Misbehaves has the servers of a mode "crash at CALL" or "hang at CALL" do that once, at the first call of this name.
func Misbehaves(mode string) []grpc.ServerOption {
	how, name, _ := strings.Cut(mode, " at ")
	at := func(method string) {
		if path.Base(method) != name {
			return
		}
		mark := filepath.Join(StateDir(), "misbehaved")
		if err := os.Mkdir(mark, 0o700); errors.Is(err, fs.ErrExist) {
			return // once is enough
		}
		if how == "crash" {
			os.Exit(7)
		}
		select {}
	}
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(
			ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
		) (any, error) {
			at(info.FullMethod)
			return next(ctx, r)
		}),
		grpc.StreamInterceptor(func(
			srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
		) error {
			at(info.FullMethod)
			return next(srv, s)
		}),
	}
}
