package scheduler

import (
	"fmt"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/volume"
)

func benchmarkSchedule(b *testing.B, nodes, count int, shape func(*world, *job.Job)) {
	w := newWorld()
	for i := range nodes {
		n := testNode(fmt.Sprintf("node-%05d", i))
		n.Resources.CPUShares = 64000
		n.Resources.MemoryMB = 256000
		n.Resources.DiskMB = 1000000
		n.Meta["rack"] = fmt.Sprintf("r%d", i%20)
		if nodes == 1 {
			n.Resources.CPUShares, n.Resources.MemoryMB = int64(count)*200, int64(count)*200
			n.Resources.DiskMB = int64(count) * 20
		}
		w.putNode(n)
	}
	j := testJob("bench", count)
	if shape != nil {
		shape(w, j)
	}
	w.register(j)
	e := w.newEval("bench", eval.TriggerJobRegister)
	w.Nodes()
	b.ReportAllocs()
	for b.Loop() {
		p, x := Schedule(w.view(), e, w.now)
		if len(p.Place) != count {
			b.Fatalf("placed %d of %d: %+v", len(p.Place), count, x.Failed)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/alloc")
}

func withPorts(_ *world, j *job.Job) {
	j.TaskGroups[0].Networks = []*job.NetworkResource{{Mode: "host", DynamicPorts: []job.Port{{Label: "http"}}}}
}

func withSpread(_ *world, j *job.Job) {
	j.Spreads = []*job.Spread{{Attribute: "${meta.rack}", Weight: 50}}
}

func withNodeSpread(_ *world, j *job.Job) {
	j.Spreads = []*job.Spread{{Attribute: "${node.unique.id}", Weight: 50}}
}

func withVolumes(w *world, j *job.Job) {
	for _, n := range w.Nodes() {
		nodePlugin(n, 0, map[string]string{"zone": n.Meta["rack"]})
	}
	for i := range j.TaskGroups[0].Count {
		v := testVolume(fmt.Sprintf("vol[%d]", i), volume.SingleNodeWriter)
		w.volumes[v.ID] = v
	}
	useVolume(j, "vol", volume.SingleNodeWriter, func(r *job.VolumeRequest) { r.PerAlloc = true })
}

func withHomes(w *world, j *job.Job) {
	withVolumes(w, j)
	nodes := w.Nodes()
	for i := range j.TaskGroups[0].Count {
		id := volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(fmt.Sprintf("vol[%d]", i))}
		w.volumes[id].Status.HomeNode = nodes[(i*7)%len(nodes)].ID
	}
}

func BenchmarkOneNode1000(b *testing.B)       { benchmarkSchedule(b, 1, 1000, nil) }
func BenchmarkOneNode2000(b *testing.B)       { benchmarkSchedule(b, 1, 2000, nil) }
func BenchmarkOneNodePorts1000(b *testing.B)  { benchmarkSchedule(b, 1, 1000, withPorts) }
func Benchmark10000Nodes1200(b *testing.B)    { benchmarkSchedule(b, 10000, 1200, nil) }
func Benchmark500NodesSpread300(b *testing.B) { benchmarkSchedule(b, 500, 300, withSpread) }
func Benchmark500NodesUnique300(b *testing.B) { benchmarkSchedule(b, 500, 300, withNodeSpread) }
func Benchmark5000NodesVolumes(b *testing.B)  { benchmarkSchedule(b, 5000, 5000, withVolumes) }
func Benchmark5000NodesHomes(b *testing.B)    { benchmarkSchedule(b, 5000, 5000, withHomes) }
func BenchmarkDouble(b *testing.B) {
	for _, n := range []int{1250, 2500, 5000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkSchedule(b, n, n, nil) })
	}
}
