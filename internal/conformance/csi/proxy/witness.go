package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"berth/internal/base/lifecycle"
)

// Observation is what stood around a call at the moment of its begin: what no call tells. A field that is nil was not
// looked at, which the oracle takes for an error of the test; an empty list says that there was nothing.
type Observation struct {
	Living  []string `json:"living"`  // processes of the alloc whose target is unpublished
	Holders []string `json:"holders"` // claims and further registrations of the volume that is deleted
	// Writers are all processes that may write to the volume that is attached, staged or published.
	Writers []Writer `json:"writers"`
}

// Writer is a process that may write to a volume.
type Writer struct {
	Node string `json:"node"` // storage node id
	What string `json:"what"` // for people
}

// Witness is asked at the begin of every call that can change something, before the plugin gets it. It may be asked by
// several calls at once.
type Witness func(begin Entry) *Observation

// askTimeout bounds one question to a witness in another process.
const askTimeout = 30 * time.Second

// Testify answers on a unix socket what proxies in other processes ask a witness, until ctx ends.
func Testify(ctx context.Context, socket string, w Witness) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listen for questions of CSI proxies: %w", err)
	}
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("stop", func() error { <-gctx.Done(); return l.Close() })
	g.Go("accept", func() error {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if err != nil {
				return err
			}
			g.Go("answer", func() error { return answer(conn, w) })
		}
	})
	return g.Wait()
}

// answer answers one question. A proxy that is killed while it asks is no error of the witness.
func answer(conn net.Conn, w Witness) error {
	defer func() { _ = conn.Close() }()
	var e Entry
	if json.NewDecoder(bufio.NewReader(conn)).Decode(&e) == nil {
		_ = json.NewEncoder(conn).Encode(w(e))
	}
	return nil
}

// AskAt is a witness that answers at a unix socket, where Testify runs. One that does not answer has seen nothing.
func AskAt(socket string) Witness {
	return func(begin Entry) *Observation {
		conn, err := (&net.Dialer{Timeout: askTimeout}).Dial("unix", socket)
		if err != nil {
			return nil
		}
		defer func() { _ = conn.Close() }()
		var seen *Observation
		if conn.SetDeadline(time.Now().Add(askTimeout)) != nil || json.NewEncoder(conn).Encode(begin) != nil ||
			json.NewDecoder(bufio.NewReader(conn)).Decode(&seen) != nil {
			return nil
		}
		return seen
	}
}
