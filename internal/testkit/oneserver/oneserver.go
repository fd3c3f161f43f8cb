// Package oneserver owns a whole server for tests of what stands on top of one: it is on its feet when it is returned,
// and ends with the test. Only tests import it.
package oneserver

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"berth/internal/base/lifecycle"
	"berth/internal/model/variable"
	"berth/internal/server"
)

// MostVariables is what the variables of a namespace may be there: few, so that tests reach it.
var MostVariables = variable.Bounds{Number: 50, Bytes: 1 << 20}

// Start starts a server of one voter and returns it with a connection to it.
func Start(t testing.TB) (*server.Server, *grpc.ClientConn) {
	t.Helper()
	s := server.New(server.Config{
		DataDir:   t.TempDir(),
		Name:      "s1",
		Addr:      "127.0.0.1",
		Port:      4647,
		Dev:       true,
		Tags:      map[string]string{"region": "global", "dc": "dc1", "port": "4647"},
		Variables: MostVariables,
	})
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	// it outlives the test's own context, for its cleanups
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	g.Go("server", func() error { return s.Run(ctx, server.Listeners{}) })
	t.Cleanup(func() {
		_ = conn.Close() // in-process: nobody is at the other end any more
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, conn
}
