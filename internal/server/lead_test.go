package server

import (
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/server/fsm"
	"berth/internal/wire"
)

// Given a server that leads again and again on the same directory, then the cluster stays the same one, and each time
// begins with a mark of its own, upon the one before.
func TestEachLeadershipBeginsWithAMark(t *testing.T) {
	dir := t.TempDir()
	var points []lineage.Point
	for range 3 {
		s := start(t, Config{DataDir: dir, Dev: true})
		snap := s.Store().Snapshot()
		for _, seen := range points {
			if got := snap.Relate(seen); got != lineage.Continues {
				t.Errorf("it does not continue %+v: %v", seen, got)
			}
		}
		points = append(points, snap.Point(nil))
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range points[1:] {
		if before := points[i]; p.Mark == before.Mark || p.Mark == "" || p.Incarnation != before.Incarnation {
			t.Errorf("after %+v comes %+v", before, p)
		}
	}
}

// Given a node that has connected anew before its old connection broke, when that breaks, then the new one is used.
func TestABrokenConnectionTakesNoNewerOneAway(t *testing.T) {
	s := start(t, Config{Dev: true})
	conns := make([]*grpc.ClientConn, 2)
	for i := range conns {
		var err error
		conns[i], err = grpc.NewClient("unix:/nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
		s.nodes.put("n", conns[i])
	}
	s.nodes.take("n", conns[0])
	if got, err := s.nodes.NodeConn("n"); err != nil || got != conns[1] {
		t.Errorf("got %v, %v", got, err)
	}
	s.nodes.take("n", conns[1])
	if _, err := s.nodes.NodeConn("n"); err == nil {
		t.Error("a connection that broke is lent out")
	}
}

// Given a node whose connections are refused and that dials again and again, as after a restore, then the reason is
// said once; that it is connected ends that; and a refusal after it is said again.
func TestANodeThatIsRefusedIsReportedOnce(t *testing.T) {
	var log lines
	s := start(t, Config{Dev: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	id, info := testNode()
	call(t, s, wire.NodeRegister, &wire.NodeRegisterRequest{NodeIdentity: id, Info: info})
	other := id
	other.Secret = wire.Secrets{Values: map[string]string{"id": "guess"}}
	refused := func() {
		raw, err := s.Reversed().Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.SendHello(raw, other); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, raw) // until it is closed
	}
	for range 3 {
		refused()
	}
	const no, yes = "level=WARN msg=\"a node's connection was refused", `level=INFO msg="a node is connected"`
	if n := log.count(no); n != 1 {
		t.Errorf("of three refusals %d are reported:\n%s", n, &log)
	}
	for range 2 {
		connected := s.nodes.Changed()
		leave := greet(t, s, id, func(*wire.Server) {})
		<-connected
		disconnected := s.nodes.Changed()
		leave()
		<-disconnected
	}
	if n := log.count(yes); n != 1 {
		t.Errorf("of two connections %d are reported:\n%s", n, &log)
	}
	refused()
	if n := log.count(no); n != 2 {
		t.Errorf("a refusal after the node was connected is not reported:\n%s", &log)
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	out strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// String returns what was written.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

// Given a call for an alloc, then it goes to the alloc's node; one that names neither an alloc nor a node is refused.
func TestACallGoesToTheNodeOfItsAlloc(t *testing.T) {
	s := start(t, Config{Dev: true})
	id, info := testNode()
	call(t, s, wire.NodeRegister, &wire.NodeRegisterRequest{NodeIdentity: id, Info: info})
	call(t, s, wire.JobRegister, &wire.JobRegisterRequest{Job: testJob("web")})
	j := s.Store().Snapshot().Job(nil, ids.DefaultNamespace, "web")
	a := &alloc.Alloc{
		ID:             ids.Alloc(ids.New()),
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobVersion:     j.Version,
		JobCreateIndex: j.CreateIndex,
		TaskGroup:      "g",
		Node:           id.Node,
	}
	if _, _, err := s.Propose(t.Context(), &fsm.PlanApply{Place: []*alloc.Alloc{a}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ref  wire.AgentRef
		want ids.Node
		kind fault.Kind
	}{
		{ref: wire.AgentRef{Alloc: a.ID}, want: id.Node},
		{ref: wire.AgentRef{Node: "named", Alloc: a.ID}, want: "named"},
		{ref: wire.AgentRef{Alloc: "unknown"}, kind: fault.NotFound},
		{ref: wire.AgentRef{}, kind: fault.Invalid},
	} {
		got, err := s.nodes.of(c.ref)
		if got != c.want || c.kind != 0 && !fault.Has(err, c.kind) || c.kind == 0 && err != nil {
			t.Errorf("%+v goes to %q, %v", c.ref, got, err)
		}
	}
}
