package worker

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/scheduler"
	"berth/internal/server/fsm"
	"berth/internal/server/planner"
	"berth/internal/testkit/localstate"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

func benchNodes(b *testing.B, c *localstate.Cluster, n int) {
	for i := range n {
		id := ids.Node(ids.New())
		n := &node.Node{
			ID:         id,
			Name:       fmt.Sprintf("node-%05d", i),
			Datacenter: "dc1",
			SecretHash: "h",
			Drivers:    map[string]*node.Driver{"exec": {Detected: true, Healthy: true}},
			Resources:  node.Resources{CPUShares: 1000000, MemoryMB: 1000000, DiskMB: 1000000, IP: "127.0.0.1"},
			CSI:        []*plugin.Instance{{Plugin: "p", Role: plugin.RoleNode, Node: id, State: plugin.Ready}},
		}
		pluginjobs.Name(n)
		c.Must(b, &fsm.NodeRegister{Seed: ids.New(), Node: n})
		pluginjobs.Place(b, c, c.Store.Snapshot, id, n.CSI)
	}
}

func benchVolumes(b *testing.B, c *localstate.Cluster, source string, n int) {
	for i := range n {
		id := ids.Volume(fmt.Sprintf("%s[%d]", source, i))
		c.Must(b, &fsm.VolumePut{
			Volume: &volume.Volume{ID: volume.ID{Namespace: ids.DefaultNamespace, ID: id}, UID: ids.New(),
				Spec: volume.Spec{
					Plugin: "p",
					Capabilities: []volume.Capability{{
						AccessMode:     volume.SingleNodeWriter,
						AttachmentMode: volume.FileSystem,
					}},
				},
				Status: volume.Status{Phase: volume.PhaseReady, ExternalID: string(id)}},
		})
	}
}

// BenchmarkPlacing is the way from the registration to the committed plan on a log without disk: state, broker,
// scheduler, planner and the application of the command.
func BenchmarkPlacing(b *testing.B) {
	for _, bm := range []struct {
		name         string
		nodes, count int
		volumes      bool
	}{
		{"1 alloc on 1 node", 1, 1, false}, {"1 alloc on 5000 nodes", 5000, 1, false}, {"1000 allocs on 1 node", 1,
			1000, false}, {"2000 allocs on 1 node", 1, 2000, false},
		{"5000 allocs on 5000 nodes", 5000, 5000, false}, {"5000 allocs with volumes on 5000 nodes", 5000, 5000, true},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c := localstate.New(b)
			benchNodes(b, c, bm.nodes)
			s := New(c.Store, c, 2, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			defer func() { cancel(); <-ended }()
			n := 0
			for b.Loop() {
				j := service(fmt.Sprintf("j%d", n), bm.count)
				j.TaskGroups[0].Tasks[0].Resources = &job.Resources{CPU: 1, MemoryMB: 1}
				if bm.volumes {
					b.StopTimer()
					benchVolumes(b, c, fmt.Sprintf("v%d", n), bm.count)
					b.StartTimer()
					onVolume(j, fmt.Sprintf("v%d", n))
					j.TaskGroups[0].Volumes["data"].PerAlloc = true
				}
				finish(b, c, c.Must(b, &fsm.JobRegister{Job: j, Seed: ids.New()}).(*fsm.JobRegistered).Eval)
				n++
			}
			b.ReportMetric(float64(bm.count*max(n, 1))/b.Elapsed().Seconds(), "allocs/s")
		})
	}
}

// BenchmarkOneAmong is the decision where one alloc is placed, job after job: what it costs follows from how many nodes
// are looked at, and not from how many there are.
func BenchmarkOneAmong(b *testing.B) {
	for _, n := range []int{500, 1000, 5000, 10000} {
		b.Run(fmt.Sprint(n, " nodes"), func(b *testing.B) {
			c := localstate.New(b)
			benchNodes(b, c, n)
			j := service("one", 1)
			e := c.Must(b, &fsm.JobRegister{Job: j, Seed: ids.New()}).(*fsm.JobRegistered).Eval
			b.ReportAllocs()
			for b.Loop() {
				next := *e
				next.ID = ids.Eval(ids.New()) // each begins with other nodes
				p, x := scheduler.Schedule(planner.ViewOf(c.Store.Snapshot()), &next, time.Now())
				if len(p.Place) != 1 {
					b.Fatalf("%+v", x.Failed)
				}
			}
		})
	}
}

// BenchmarkMemoryOfNodes is what the heap of a server grows by with each thousand of nodes that have registered.
func BenchmarkMemoryOfNodes(b *testing.B) {
	const n = 5000
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	for b.Loop() {
		c := localstate.New(b)
		before := heap()
		benchNodes(b, c, n)
		b.ReportMetric((heap()-before)*1000/n, "MiB/1000-nodes")
		runtime.KeepAlive(c)
	}
}

func finish(b *testing.B, c *localstate.Cluster, e *eval.Eval) {
	b.Helper()
	at := c.Store.Snapshot().Index()
	for {
		s, err := c.Store.SnapshotAt(b.Context(), at)
		if err != nil {
			b.Fatal(err)
		}
		if now := s.Eval(nil, e.ID); now.Terminal() {
			if len(now.FailedTGAllocs) > 0 || now.Status != eval.StatusComplete {
				b.Fatalf("%+v", now)
			}
			return
		}
		at = s.Index() + 1
	}
}

func BenchmarkDryRun5000(b *testing.B) {
	c := localstate.New(b)
	benchNodes(b, c, 100)
	s := New(c.Store, c, 2, slog.New(slog.DiscardHandler))
	j := service("dry", 5000)
	j.TaskGroups[0].Tasks[0].Resources = &job.Resources{CPU: 1, MemoryMB: 1}
	for b.Loop() {
		r, err := s.DryRun(b.Context(), &wire.JobPlanRequest{Job: j})
		if err != nil || r.Annotations["g"].Place != 5000 || len(r.FailedTGAllocs) > 0 {
			b.Fatalf("%+v, %v", r, err)
		}
	}
}
