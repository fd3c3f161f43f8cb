package wire_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/wire"
)

// silent is a connection of which nothing arrives any more once it is cut, and that nobody closes.
type silent struct {
	net.Conn
	cut chan struct{}
}

func (s silent) Write(b []byte) (int, error) {
	select {
	case <-s.cut:
		return len(b), nil
	default:
		return s.Conn.Write(b)
	}
}

// TestACallOnASilentConnectionEnds: given a call that the other side works on, when everything that is sent gets lost,
// then the call ends by itself, long before its deadline.
func TestACallOnASilentConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g, gctx := lifecycle.NewGroup(ctx)
		s := wire.NewServer()
		called := make(chan struct{})
		pingMethod.Serve(s, func(ctx context.Context, _ *ping) (*ping, error) {
			close(called)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		pipe := wire.NewPipe()
		g.Go("serve", func() error { return s.Run(gctx, pipe.Listener()) })
		cut := make(chan struct{})
		conn, err := wire.Connect(func(ctx context.Context) (net.Conn, error) {
			c, err := pipe.Dial(ctx)
			return silent{Conn: c, cut: cut}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		g.Go("cut", func() error { <-called; close(cut); return nil })
		waits, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := pingMethod.Call(waits, conn, &ping{}); !fault.Has(err, fault.Unavailable) {
			t.Errorf("the call ends with %v", err)
		}
		cancel()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}
