package server

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/raftlog"
	"berth/internal/wire"
)

// startWhole runs a server with everything that belongs to it.
func startWhole(t testing.TB) (*Server, wire.Conn) {
	return startWith(t, Config{DataDir: t.TempDir(), Dev: true})
}

func startWith(t testing.TB, cfg Config) (*Server, wire.Conn) {
	s := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, Listeners{}) }()
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, conn
}

// do makes a call that must succeed.
func do[Req, Resp any](t testing.TB, c wire.Conn, m wire.Method[Req, Resp], req *Req) *Resp {
	t.Helper()
	resp, err := m.Call(t.Context(), c, req)
	if err != nil {
		t.Fatalf("%s: %v", m.Name(), err)
	}
	return resp
}

// patience is how long a test waits for what comes at once unless it never comes.
const patience = 50 * time.Second

// join registers a node and opens its stream of allocs.
func join(t testing.TB, c wire.Conn) (wire.NodeIdentity, *wire.Stream[wire.Empty, wire.AllocSet]) {
	t.Helper()
	id, info := testNode()
	info.Datacenter = "dc1"
	info.NodePool = "default"
	info.Attributes = map[string]string{}
	info.Resources = node.Resources{CPUShares: 1e6, CPUCores: 2, MemoryMB: 1e6, DiskMB: 1e6}
	do(t, c, wire.NodeRegister, &wire.NodeRegisterRequest{NodeIdentity: id, Info: info})
	ctx, cancel := context.WithTimeout(t.Context(), patience) // who waits for what does not come says so
	t.Cleanup(cancel)
	stream, err := wire.NodeAllocs.Open(ctx, c, &wire.NodeAllocsRequest{NodeIdentity: id})
	if err != nil {
		t.Fatal(err)
	}
	if set, err := stream.Recv(); err != nil || !set.Full {
		t.Fatalf("the first set: %+v, %v", set, err)
	}
	return id, stream
}

func wholeJob(id ids.Job) *job.Job {
	j := testJob(id)
	j.NodePool = "default"
	j.TaskGroups[0].EphemeralDisk = &job.EphemeralDisk{SizeMB: 10}
	j.TaskGroups[0].Tasks[0].Resources = &job.Resources{CPU: 10, MemoryMB: 10}
	j.TaskGroups[0].ReschedulePolicy = &job.ReschedulePolicy{
		Unlimited:     true,
		Delay:         time.Millisecond,
		DelayFunction: "constant",
	}
	return j
}

// until receives until an alloc of the stream satisfies ok.
func until(t testing.TB, stream *wire.Stream[wire.Empty, wire.AllocSet], ok func(alloc.Bundle) bool) *alloc.Alloc {
	t.Helper()
	for {
		set, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range set.Bundles {
			if ok(b) {
				return b.Alloc
			}
		}
	}
}

func TestAJobIsPlacedReplacedAndStoppedByTheWholeServer(t *testing.T) {
	s, c := startWhole(t)
	id, stream := join(t, c)
	done := do(t, c, wire.JobRegister, &wire.JobRegisterRequest{Job: wholeJob("web")})
	first := until(t, stream, func(b alloc.Bundle) bool { return b.Alloc.Job == "web" && b.Job.ID == "web" })
	if first.Eval != done.Eval || first.DesiredStatus != alloc.DesiredRun || first.Node != id.Node {
		t.Fatalf("pushed %+v", first)
	}
	ev := do(t, c, wire.EvalGet,
		&wire.Ref[ids.Eval]{Query: wire.Query{MinIndex: done.EvalCreateIndex, Wait: 5 * time.Second}, ID: done.Eval})
	if ev.Eval.Status != eval.StatusComplete {
		t.Errorf("the evaluation is %s", ev.Eval.Status)
	}

	say := func(a ids.Alloc, status string) {
		do(t, c, wire.NodeUpdate,
			&wire.NodeUpdateRequest{NodeIdentity: id, Allocs: []*alloc.Alloc{{ID: a, ClientStatus: status,
				TaskStates: map[string]*alloc.TaskState{"t": {
					State:      alloc.TaskDead,
					FinishedAt: time.Now(),
					Failed:     status == alloc.ClientFailed,
				}}}}})
	}
	say(first.ID, alloc.ClientFailed)
	second := until(t, stream, func(b alloc.Bundle) bool { return b.Alloc.PreviousAlloc == first.ID })
	say(second.ID, alloc.ClientRunning)
	if got := s.Store().Snapshot().Alloc(nil, first.ID); got.NextAlloc != second.ID {
		t.Errorf("the failed alloc is followed by %q", got.NextAlloc)
	}

	do(t, c, wire.JobDeregister, &wire.JobDeregisterRequest{Namespace: ids.DefaultNamespace, Job: "web"})
	until(t, stream, func(b alloc.Bundle) bool {
		return b.Alloc.ID == second.ID && b.Alloc.DesiredStatus == alloc.DesiredStop
	})
	say(second.ID, alloc.ClientComplete)
	view := do(t, c, wire.JobGet, &wire.Ref[ids.Job]{Query: wire.Query{Namespace: ids.DefaultNamespace}, ID: "web"})
	if j := view.Item; j.Status != job.StatusDead || j.Summary["g"].Complete != 1 || j.Summary["g"].Failed != 1 {
		t.Errorf("the stopped job is %s with %+v", view.Item.Status, view.Item.Summary)
	}
	do(t, c, wire.SystemGC, &wire.Empty{})
	for set, err := stream.Recv(); ; set, err = stream.Recv() {
		if err != nil {
			t.Fatal(err)
		}
		if len(set.Gone) == 2 {
			break
		}
	}
}

func TestASilentNodesWorkMovesToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := startWith(t, Config{DataDir: t.TempDir()})
		silent, first := join(t, c)
		do(t, c, wire.JobRegister, &wire.JobRegisterRequest{Job: wholeJob("web")})
		lost := until(t, first, func(b alloc.Bundle) bool { return b.Alloc.Job == "web" })

		loud, second := join(t, c)
		for range 6 {
			time.Sleep(5 * time.Second)
			if beat := do(t, c, wire.NodeHeartbeat, &wire.NodeHeartbeatRequest{NodeIdentity: loud}); beat.Reregister {
				t.Error("a node that beats is asked to register again")
			}
		}
		moved := until(t, second, func(b alloc.Bundle) bool { return b.Alloc.PreviousAlloc == lost.ID })
		snap := s.Store().Snapshot()
		if got := snap.Alloc(nil, lost.ID); got.ClientStatus != alloc.ClientLost || got.NextAlloc != moved.ID {
			t.Errorf("the lost alloc is %s, followed by %q", got.ClientStatus, got.NextAlloc)
		}
		if got := snap.Node(nil, silent.Node).Status; got != node.StatusDown {
			t.Errorf("the silent node is %s", got)
		}
		if beat := do(t, c, wire.NodeHeartbeat, &wire.NodeHeartbeatRequest{NodeIdentity: silent}); !beat.Reregister {
			t.Error("a node that went down is not asked to register again")
		}
	})
}

// BenchmarkRegisterToPush measures the way from a registration to its alloc on the node's stream.
func BenchmarkRegisterToPush(b *testing.B) {
	s, c := startWhole(b)
	_, stream := join(b, c)
	before := s.Counters()
	for b.Loop() {
		id := ids.Job(ids.New())
		do(b, c, wire.JobRegister, &wire.JobRegisterRequest{Job: wholeJob(id)})
		until(b, stream, func(x alloc.Bundle) bool { return x.Alloc.Job == id })
	}
	after := s.Counters()
	b.ReportMetric(float64(after.Appends-before.Appends)/float64(b.N), "fsyncs/op")
	b.ReportMetric(float64(after.Entries-before.Entries)/float64(b.N), "entries/op")
}

// BenchmarkPlaceThousand measures the way of one job with a thousand allocs to the node's stream.
func BenchmarkPlaceThousand(b *testing.B) {
	_, c := startWhole(b)
	_, stream := join(b, c)
	for b.Loop() {
		j := wholeJob(ids.Job(ids.New()))
		j.TaskGroups[0].Count = 1000
		j.TaskGroups[0].Tasks[0].Resources = &job.Resources{CPU: 1, MemoryMB: 1}
		j.TaskGroups[0].EphemeralDisk.SizeMB = 1
		do(b, c, wire.JobRegister, &wire.JobRegisterRequest{Job: j})
		for got := 0; got < 1000; {
			set, err := stream.Recv()
			if err != nil {
				b.Fatal(err)
			}
			got += len(set.Bundles)
		}
	}
}

// BenchmarkStart measures from nothing to a server that answers.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s := New(Config{DataDir: b.TempDir(), Dev: true})
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, Listeners{}) }()
		if err := s.Ready(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkRestart measures from nothing to a server that answers, over a log of 8,192 entries that no snapshot holds.
func BenchmarkRestart(b *testing.B) {
	dir := b.TempDir()
	cfg := Config{DataDir: dir, Dev: true}
	cfg.Raft.SnapshotThreshold = 1 << 20
	run := func() (*Server, func()) {
		s := New(cfg)
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, Listeners{}) }()
		if err := s.Ready(b.Context()); err != nil {
			b.Fatal(err)
		}
		return s, func() {
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		}
	}
	s, stop := run()
	conn, err := s.Connect()
	if err != nil {
		b.Fatal(err)
	}
	for s.log.LastIndex() < raftlog.DefaultSnapshotThreshold {
		do(b, conn, wire.JobRegister, &wire.JobRegisterRequest{Job: wholeJob(ids.Job(ids.New()))})
	}
	_ = conn.Close()
	stop()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		_, stop := run()
		took = append(took, time.Since(began))
		b.StopTimer()
		stop()
		b.StartTimer()
	}
	slices.Sort(took)
	for name, d := range map[string]time.Duration{"min-ms": took[0], "p50-ms": took[len(took)/2],
		"max-ms": took[len(took)-1]} {
		b.ReportMetric(float64(d.Microseconds())/1000, name)
	}
}
