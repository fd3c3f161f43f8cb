package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
	"berth/internal/server/keyring"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// running is a server under test with a connection to it.
type running struct {
	*Server
	conn wire.Conn
	stop func() error
}

func start(t *testing.T, cfg Config) running {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	cfg.Raft.SegmentSize, cfg.Raft.Reserve = 1<<20, 1<<20
	s := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, Listeners{}) }()
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop := func() error {
		once.Do(func() {
			_ = conn.Close()
			cancel()
			err = <-ended
		})
		return err
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return running{s, conn, stop}
}

func testNode() (wire.NodeIdentity, *node.Node) {
	id := ids.Node(ids.New())
	return wire.NodeIdentity{Node: id, Secret: wire.Secrets{Values: map[string]string{"id": ids.New()}}},
		&node.Node{
			ID:         id,
			Name:       "n1",
			Datacenter: "dc1",
			Drivers:    map[string]*node.Driver{"exec": {Detected: true, Healthy: true}},
		}
}

func testJob(id ids.Job) *job.Job {
	return &job.Job{
		Region:      "global",
		Namespace:   ids.DefaultNamespace,
		ID:          id,
		Name:        string(id),
		Type:        job.TypeService,
		Priority:    50,
		Datacenters: []string{"*"},
		TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Count: 1,
			Tasks: []*job.Task{{Name: "t", Driver: "exec", Config: map[string]any{"command": "/bin/true"}}},
		}},
	}
}

func call[Req, Resp any](t *testing.T, s running, m wire.Method[Req, Resp], req *Req) *Resp {
	t.Helper()
	resp, err := m.Call(t.Context(), s.conn, req)
	if err != nil {
		t.Fatalf("%s: %v", m.Name(), err)
	}
	return resp
}

func TestAJobsWayFromRegistrationToItsNode(t *testing.T) {
	s := start(t, Config{Dev: true})
	id, info := testNode()
	reg := call(t, s, wire.NodeRegister, &wire.NodeRegisterRequest{NodeIdentity: id, Info: info})
	if reg.Incarnation == "" || reg.ClusterID == "" || reg.HeartbeatTTL <= 0 {
		t.Fatalf("the reply lacks something: %+v", reg)
	}
	stream, err := wire.NodeAllocs.Open(t.Context(), s.conn, &wire.NodeAllocsRequest{NodeIdentity: id})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || !first.Full || len(first.Bundles) != 0 || first.At.Incarnation != reg.Incarnation ||
		first.At.Index < reg.Index || first.At.Mark == "" {
		t.Fatalf("the first set is %+v, %v", first, err)
	}

	done := call(t, s, wire.JobRegister, &wire.JobRegisterRequest{Job: testJob("web")})
	if done.Outcome != fsm.Created || done.Eval == "" || done.JobModifyIndex == 0 {
		t.Fatalf("the registration answered %+v", done)
	}
	ev := call(t, s, wire.EvalGet, &wire.Ref[ids.Eval]{ID: done.Eval})
	if ev.Eval.Job != "web" || ev.Eval.TriggeredBy != eval.TriggerJobRegister {
		t.Fatalf("the evaluation is %+v", ev.Eval)
	}
	pushed, err := stream.Recv()
	if err != nil || pushed.Full || len(pushed.Bundles) != 1 || pushed.Bundles[0].Job.ID != "web" {
		t.Fatalf("the push was %+v, %v", pushed, err)
	}
	a := pushed.Bundles[0].Alloc.ID

	call(t, s, wire.NodeUpdate,
		&wire.NodeUpdateRequest{NodeIdentity: id, Allocs: []*alloc.Alloc{{ID: a, ClientStatus: alloc.ClientRunning}}})
	view := call(t, s, wire.JobGet, &wire.Ref[ids.Job]{Query: wire.Query{Namespace: ids.DefaultNamespace}, ID: "web"})
	if view.Item.Status != job.StatusRunning || view.Item.Summary["g"].Running != 1 {
		t.Errorf("the job is %s with %+v", view.Item.Status, view.Item.Summary)
	}
	elsewhere := lineage.Point{Incarnation: reg.Incarnation, Mark: "of another history", Index: 1}
	known := call(t, s, wire.NodeAllocsKnown,
		&wire.NodeAllocsKnownRequest{NodeIdentity: id, Allocs: []wire.ReceivedAlloc{
			{
				Alloc:    a,
				Received: first.At,
			}, {Alloc: "removed", Received: first.At}, {Alloc: "orphan", Received: elsewhere}}})
	if !slices.Equal(known.Removed, []ids.Alloc{"removed"}) || !slices.Equal(known.Orphans, []ids.Alloc{"orphan"}) {
		t.Errorf("%+v", known)
	}
}

func TestABlockingQueryWakesForItsObjectAlone(t *testing.T) {
	s := start(t, Config{Dev: true})
	one := call(t, s, wire.JobRegister, &wire.JobRegisterRequest{Job: testJob("one")})
	call(t, s, wire.JobRegister, &wire.JobRegisterRequest{Job: testJob("two")})
	settled(t, s.Store())
	q := &wire.Ref[ids.Job]{Query: wire.Query{Namespace: ids.DefaultNamespace}, ID: "one"}
	q.MinIndex = call(t, s, wire.JobGet, q).Index
	q.Wait = 150 * time.Millisecond

	changed := *testJob("two")
	changed.Meta = map[string]string{"k": "v"}
	call(t, s, wire.JobRegister, &wire.JobRegisterRequest{Job: &changed})
	if got := call(t, s, wire.JobGet, q); got.Index != q.MinIndex {
		t.Errorf("the change of another job moved the index from %d to %d", q.MinIndex, got.Index)
	}

	q.Wait = time.Minute
	woken := make(chan *wire.One[wire.JobView], 1)
	go func() {
		got, err := wire.JobGet.Call(t.Context(), s.conn, q)
		if err != nil {
			t.Error(err)
		}
		woken <- got
	}()
	mine := *testJob("one")
	mine.Priority = 70
	done := call(t, s, wire.JobRegister, &wire.JobRegisterRequest{Job: &mine})
	got := <-woken
	if got.Index < done.JobModifyIndex || got.Item.Job.Priority != 70 || done.JobModifyIndex <= one.JobModifyIndex {
		t.Errorf("woke at %d with priority %d", got.Index, got.Item.Job.Priority)
	}
}

func TestANodeIsHeldToItsSecret(t *testing.T) {
	s := start(t, Config{Dev: true})
	id, info := testNode()
	call(t, s, wire.NodeRegister, &wire.NodeRegisterRequest{NodeIdentity: id, Info: info})
	thief := id
	thief.Secret = wire.Secrets{Values: map[string]string{"id": "guess"}}
	if _, err := wire.NodeRegister.Call(t.Context(), s.conn,
		&wire.NodeRegisterRequest{NodeIdentity: thief, Info: info}); !fault.Has(err, fault.Denied) {
		t.Errorf("registering with another secret: %v", err)
	}
	if _, err := wire.NodeUpdate.Call(t.Context(), s.conn,
		&wire.NodeUpdateRequest{NodeIdentity: thief}); !fault.Has(err, fault.Denied) {
		t.Errorf("updating allocs with another secret: %v", err)
	}
	stream, err := wire.NodeAllocs.Open(t.Context(), s.conn, &wire.NodeAllocsRequest{NodeIdentity: thief})
	if err == nil {
		_, err = stream.Recv()
	}
	if !fault.Has(err, fault.Denied) {
		t.Errorf("reading allocs with another secret: %v", err)
	}
	beat := call(t, s, wire.NodeHeartbeat,
		&wire.NodeHeartbeatRequest{NodeIdentity: wire.NodeIdentity{Node: ids.Node(ids.New())}})
	if !beat.Reregister {
		t.Error("an unknown node is not asked to register")
	}
}

// greet serves the methods of nodes as a node does and connects to the server.
func greet(t *testing.T, s running, id wire.NodeIdentity, register func(*wire.Server)) (leave func()) {
	t.Helper()
	raw, err := s.Reversed().Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.SendHello(raw, id); err != nil {
		t.Fatal(err)
	}
	ws := wire.NewServer(nil)
	register(ws)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	one := wire.NewOneConn(raw)
	go func() { ended <- ws.Run(ctx, one) }()
	leave = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(leave)
	return leave
}

func TestCallsAreForwardedToTheNodeThatTheyName(t *testing.T) {
	s := start(t, Config{Dev: true})
	id, info := testNode()
	call(t, s, wire.NodeRegister, &wire.NodeRegisterRequest{NodeIdentity: id, Info: info})
	ref := wire.AgentRef{Node: id.Node, Alloc: "a1"}
	if _, err := wire.AllocStats.Call(t.Context(), s.conn, &ref); !fault.Has(err, fault.Unavailable) {
		t.Fatalf("before it connected: %v", err)
	}
	connected := s.nodes.Changed()
	leave := greet(t, s, id, func(ws *wire.Server) {
		wire.AllocStats.Serve(ws, func(_ context.Context, r *wire.AgentRef) (*wire.AllocStatsReply, error) {
			if r.Alloc != "a1" {
				return nil, fault.New(fault.NotFound, "stats", string(r.Alloc), "unknown")
			}
			return &wire.AllocStatsReply{Total: wire.Usage{MemoryRSS: 42}}, nil
		})
		wire.AllocExec.Serve(ws,
			func(r *wire.AllocExecRequest, st *wire.Stream[wire.ExecOutput, wire.ExecInput]) error {
				for {
					in, err := st.Recv()
					if errors.Is(err, io.EOF) {
						return st.Send(&wire.ExecOutput{Exited: true, ExitCode: 3})
					}
					if err != nil {
						return err
					}
					if err := st.Send(&wire.ExecOutput{Stdout: bytes.ToUpper(in.Stdin)}); err != nil {
						return err
					}
				}
			})
	})
	<-connected
	if got := call(t, s, wire.AllocStats, &ref); got.Total.MemoryRSS != 42 {
		t.Errorf("got %+v", got)
	}
	if _, err := wire.AllocStats.Call(t.Context(), s.conn, &wire.AgentRef{Node: id.Node, Alloc: "a2"}); !fault.Has(err,
		fault.NotFound) {
		t.Errorf("the node's refusal came back as %v", err)
	}
	st, err := wire.AllocExec.Open(t.Context(), s.conn, &wire.AllocExecRequest{AgentRef: ref})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Send(&wire.ExecInput{Stdin: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	if out, err := st.Recv(); err != nil || string(out.Stdout) != "HELLO" {
		t.Fatalf("got %+v, %v", out, err)
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if out, err := st.Recv(); err != nil || !out.Exited || out.ExitCode != 3 {
		t.Fatalf("got %+v, %v", out, err)
	}
	if _, err := st.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}

	disconnected := s.nodes.Changed()
	leave()
	<-disconnected
	if _, err := wire.AllocStats.Call(t.Context(), s.conn, &ref); !fault.Has(err, fault.Unavailable) {
		t.Errorf("after it left: %v", err)
	}
}

// Given a node whose connection has just ended, as when its agent is started again, when it is called, then the call
// waits and reaches it when it connects anew; one that has been away for longer is said to be so at once.
func TestACallWaitsForANodeThatConnectsAnew(t *testing.T) {
	s := start(t, Config{Dev: true})
	id, info := testNode()
	call(t, s, wire.NodeRegister, &wire.NodeRegisterRequest{NodeIdentity: id, Info: info})
	connect := func() (leave func()) {
		connected := s.nodes.Changed()
		leave = greet(t, s, id, func(ws *wire.Server) {
			wire.AllocStats.Serve(ws, func(context.Context, *wire.AgentRef) (*wire.AllocStatsReply, error) {
				return &wire.AllocStatsReply{Total: wire.Usage{MemoryRSS: 42}}, nil
			})
		})
		<-connected
		return leave
	}
	disconnect := func(leave func()) {
		disconnected := s.nodes.Changed()
		leave()
		<-disconnected
	}
	disconnect(connect())
	answered := make(chan error, 1)
	ask := func() error {
		_, err := wire.AllocStats.Call(t.Context(), s.conn, &wire.AgentRef{Node: id.Node, Alloc: "a1"})
		return err
	}
	go func() { answered <- ask() }()
	select {
	case err := <-answered:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	leave := connect()
	if err := <-answered; err != nil {
		t.Errorf("with the node: %v", err)
	}
	disconnect(leave)
	s.nodes.mu.Lock()
	s.nodes.lost[id.Node] = time.Now().Add(-rejoinWithin)
	s.nodes.mu.Unlock()
	if err := ask(); !fault.Has(err, fault.Unavailable) || s.nodes.rejoins(id.Node) {
		t.Errorf("of one that is away: %v, and it is waited for: %t", err, s.nodes.rejoins(id.Node))
	}
}

func TestAConnectionOfAStrangerIsNotLentOut(t *testing.T) {
	s := start(t, Config{Dev: true})
	id, info := testNode()
	call(t, s, wire.NodeRegister, &wire.NodeRegisterRequest{NodeIdentity: id, Info: info})
	thief := id
	thief.Secret = wire.Secrets{Values: map[string]string{"id": "guess"}}
	raw, err := s.Reversed().Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.SendHello(raw, thief); err != nil {
		t.Fatal(err)
	}
	if err := raw.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, raw); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is kept")
	}
	if _, err := s.nodes.NodeConn(id.Node); !fault.Has(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestTheStateSurvivesCrashesAtAnyMoment(t *testing.T) {
	dir := t.TempDir()
	for run := range 5 {
		s := start(t, Config{DataDir: dir, Dev: true, Raft: raftlog.Config{SnapshotThreshold: 20, TrailingLogs: 5}})
		jobs := 0
		for range s.Store().Snapshot().Jobs(nil, wire.AllNamespaces, "") {
			jobs++
		}
		if jobs != run*15 {
			t.Fatalf("agent run %d began with %d jobs", run, jobs)
		}
		incarnation := s.Store().Snapshot().Meta(nil).Incarnation
		for n := range 15 {
			call(t, s, wire.JobRegister, &wire.JobRegisterRequest{Job: testJob(ids.Job("j" + ids.New()))})
			if n == 7 && run%2 == 1 {
				if err := s.Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := dump(t, settled(t, s.Store()))
		copied := t.TempDir() // what a crash would have left on the disk
		if out, err := exec.Command("cp", "-a", dir+"/.", copied).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		crashed := start(t, Config{DataDir: copied, Dev: true})
		if before, after := marked(t, before, crashed.Store()), dump(t, crashed.Store()); !bytes.Equal(before, after) {
			t.Errorf("agent run %d: the state after a crash differs (%d and %d bytes)", run, len(before), len(after))
		}
		if got := crashed.Store().Snapshot().Meta(nil).Incarnation; got != incarnation {
			t.Errorf("the incarnation changed from %s to %s", incarnation, got)
		}
		if err := crashed.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// marked is a dumped state as the beginning of the leadership of another makes it.
func marked(t *testing.T, dumped []byte, next *state.Store) []byte {
	t.Helper()
	s, snap := state.New(), next.Snapshot()
	if err := s.Restore(bytes.NewReader(dumped)); err != nil {
		t.Fatal(err)
	}
	mark := &fsm.LineageMark{Mark: snap.Point(nil).Mark}
	if mark.Mark == s.Snapshot().Point(nil).Mark {
		t.Fatal("the leadership began without a mark of its own")
	}
	st := fsm.Stamp{Index: snap.MarkIndex(), Time: snap.Stamp().Time}
	if err := s.Write(st, func(tx *state.Tx) error {
		_, err := mark.Apply(tx, st)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return dump(t, s)
}

// settled waits until the leader has nothing left to do: the cluster has its key, and no evaluation waits for a worker.
func settled(t *testing.T, s *state.Store) *state.Store {
	t.Helper()
	for {
		w := state.NewWatch()
		snap, busy := s.Snapshot(), true
		for range snap.SigningKeys(w) {
			busy = false
		}
		for e := range snap.Evals(w, "") {
			busy = busy || e.Status == eval.StatusPending
		}
		if !busy {
			return s
		}
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func dump(t *testing.T, s *state.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Snapshot().Persist(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSecretsNeverReachTheDiskInClear(t *testing.T) {
	dir := t.TempDir()
	const canary = "canary-9f3b77"
	s := start(t, Config{DataDir: dir, Dev: true})
	ring, err := keyring.Create(filepath.Join(dir, "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := ring.Seal(s.Store().Snapshot(), "db", redact.MapOf(map[string]string{"password": canary}))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Propose(t.Context(), &fsm.SecretPut{Name: "db", Data: sealed}); err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("%s shows the secret", path)
		}
		files++
		return err
	})
	if err != nil || files < 4 {
		t.Fatalf("looked into %d files, %v", files, err)
	}
}

func TestACleanStartIsQuiet(t *testing.T) {
	var said bytes.Buffer
	s := start(t,
		Config{Dev: true, Log: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if said.Len() > 0 {
		t.Errorf("it said:\n%s", said.String())
	}
}

func TestASecondServerOnTheSameDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, Config{DataDir: dir, Dev: true})
	if err := New(Config{DataDir: dir}).Run(t.Context(), Listeners{}); !fault.Has(err, fault.Busy) {
		t.Errorf("got %v", err)
	}
}

// Given servers whose state holds what was sealed with their key, when that is gone, then they are refused with its
// path, and no other is made; put back, they start.
func TestAMissingKeyIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := start(t, Config{DataDir: dir}).stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "keyring", "root.key")
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // one that starts ends, too
	defer cancel()
	err = New(Config{DataDir: dir}).Run(ctx, Listeners{})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), path) {
		t.Errorf("without its key it ended with %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another key was made: %v", err)
	}
	if err := os.WriteFile(path, key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(t, Config{DataDir: dir}).stop(); err != nil {
		t.Error(err)
	}
}
