package endpoint

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/redact"
	"berth/internal/server/controllers"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// follower is a server that does not lead; ready says whether it may answer all the same.
type follower struct {
	leader.Alone
	ready bool
}

func (f follower) Route(context.Context, bool) (wire.Conn, error) {
	if f.ready {
		return nil, nil
	}
	return nil, fault.New(fault.Unavailable, "ask", "server s1", "no leader")
}

func (follower) Contact() (time.Duration, bool) { return 0, false }

// noSecrets is a secret store in which every entry is empty.
type noSecrets struct{}

func (noSecrets) Secrets(string) (wire.Secrets, error)    { return wire.Secrets{}, nil }
func (noSecrets) Seal(string, redact.Map) ([]byte, error) { return nil, nil }

// servedBy returns a connection to the endpoints of a cluster.
func servedBy(t *testing.T, cluster Cluster) (wire.Conn, *wire.Server) {
	t.Helper()
	c := localstate.New(t)
	ws := wire.NewServer(nil)
	pipe := wire.NewPipe()
	New(Config{
		Store:       c.Store,
		Proposer:    c,
		Cluster:     cluster,
		Heartbeats:  leader.Alone{},
		Controllers: controllers.New(),
		Secrets:     noSecrets{},
		Log:         slog.New(slog.DiscardHandler),
	}).Register(ws)
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(t.Context()))
	g.Go("calls", func() error { return ws.Run(ctx, pipe.Listener()) })
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close() // in-process
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return conn, ws
}

// Given a server that is not ready, when any method is called, then it answers so; but for the status, which tells why,
// for who may ask for that, how far each server is, which the leader asks, and events.
func TestEveryMethodWaitsForTheLeader(t *testing.T) {
	conn, ws := servedBy(t, follower{})
	methods := ws.Methods()
	if len(methods) < 40 {
		t.Fatalf("only %d methods: %v", len(methods), methods)
	}
	for _, path := range methods {
		if path == wire.ServerProgress.Name() || path == wire.EventStream.Name() { // any server answers
			continue
		}
		name := strings.ReplaceAll(strings.TrimPrefix(path, "/berth."), "/", ".")
		_, err := wire.Unary[wire.Empty, wire.Empty](name).Call(t.Context(), conn, &wire.Empty{})
		if path == wire.SystemStatus.Name() || path == wire.PersonAllowed.Name() {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !fault.Has(err, fault.Unavailable) || !strings.Contains(err.Error(), "no leader") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Given a server that answers without leading, when jobs, volumes or plugins are read, then no reply pretends a leader.
func TestNoReadPretendsALeader(t *testing.T) {
	conn, _ := servedBy(t, follower{ready: true})
	q := wire.Query{Namespace: ids.DefaultNamespace}
	metas := map[string]wire.Meta{
		"jobs":    mustCall(t, conn, wire.JobList, &q).Meta,
		"volumes": mustCall(t, conn, wire.VolumeList, &wire.VolumeListRequest{Query: q}).Meta,
		"volume":  mustCall(t, conn, wire.VolumeGet, &wire.Ref[ids.Volume]{Query: q, ID: "v"}).Meta,
		"plugins": mustCall(t, conn, wire.PluginList, &q).Meta,
		"plugin":  mustCall(t, conn, wire.PluginGet, &wire.Ref[ids.Plugin]{Query: q, ID: "p"}).Meta,
	}
	for what, m := range metas {
		if m.KnownLeader || m.Index == 0 {
			t.Errorf("%s: %+v", what, m)
		}
	}
}

func mustCall[Req, Resp any](t *testing.T, c wire.Conn, m wire.Method[Req, Resp], req *Req) *Resp {
	t.Helper()
	out, err := m.Call(t.Context(), c, req)
	if err != nil {
		t.Fatalf("%s: %v", m.Name(), err)
	}
	return out
}

// Given many blocking reads that began together, when nothing changes, then they end apart.
func TestBlockingReadsDoNotEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := endpoints(t)
		q := wire.Query{MinIndex: 1 << 40, Wait: 16 * time.Second}
		leader.EndApart(t, "jobs", q.Wait, func() error { _, err := e.jobList(t.Context(), &q); return err })
	})
}
