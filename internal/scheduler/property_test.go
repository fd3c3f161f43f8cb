package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

// TestWhateverHappensTheRulesHold lets a cluster live at random: jobs come, change and go, nodes fail and return,
// allocs end, volumes are released. After every plan no node has given away more than it has, no exclusive volume has
// two holders or two in its queue, no port has two owners; and the same evaluation of the same state makes the same
// plan.
func TestWhateverHappensTheRulesHold(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := &life{r: r, t: r, w: newWorld()}
		for i := range rapid.IntRange(1, 4).Draw(r, "nodes") {
			l.addNode(fmt.Sprintf("n%d", i))
		}
		for i := range 3 {
			mode := rapid.SampledFrom(
				[]volume.AccessMode{volume.SingleNodeWriter, volume.SingleNodeReader, volume.MultiNodeSingleWriter,
					volume.MultiNodeMultiWriter}).Draw(r, "mode")
			for _, id := range []string{fmt.Sprintf("v%d", i), fmt.Sprintf("v%d[0]", i), fmt.Sprintf("v%d[1]", i)} {
				v := testVolume(id, mode)
				l.w.volumes[v.ID] = v
			}
		}
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			l.step()
			l.w.check(r)
		}
		l.quiet()
	})
}

type life struct {
	r *rapid.T
	t failer
	w *world
}

func (l *life) addNode(name string) {
	n := testNode(name)
	n.Resources.CPUShares = int64(rapid.IntRange(1, 6).Draw(l.r, "cpu")) * 100
	nodePlugin(n, int64(rapid.IntRange(0, 2).Draw(l.r, "slots")), map[string]string{"zone": name})
	l.w.putNode(n)
}

func (l *life) step() {
	l.w.now = l.w.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(l.r, "seconds")) * time.Second)
	switch rapid.IntRange(0, 5).Draw(l.r, "event") {
	case 0, 1:
		l.register()
	case 2:
		l.nodeChanges()
	case 3:
		l.allocChanges()
	case 4:
		l.release()
	case 5:
		id := ids.Job(fmt.Sprintf("j%d", rapid.IntRange(0, 3).Draw(l.r, "job")))
		if old := l.w.jobs[id]; old != nil {
			j := *old
			j.Stop = true
			l.w.register(&j)
			l.evaluate(id)
		}
	}
	for i := range 4 {
		if id := ids.Job(fmt.Sprintf("j%d", i)); l.w.jobs[id] != nil {
			l.evaluate(id)
		}
	}
}

func (l *life) register() {
	j := testJob(fmt.Sprintf("j%d", rapid.IntRange(0, 3).Draw(l.r, "job")), rapid.IntRange(0, 4).Draw(l.r, "count"))
	g := j.TaskGroups[0]
	g.Tasks[0].Config = map[string]any{"command": fmt.Sprint(rapid.IntRange(0, 2).Draw(l.r, "command"))}
	g.Update.MaxParallel = rapid.IntRange(0, 2).Draw(l.r, "parallel")
	if rapid.Bool().Draw(l.r, "port") {
		g.Networks = []*job.NetworkResource{{
			Mode:          "host",
			ReservedPorts: []job.Port{{Label: "p", Value: 8000}},
			DynamicPorts:  []job.Port{{Label: "d"}},
		}}
	}
	if rapid.Bool().Draw(l.r, "volume") {
		mode := rapid.SampledFrom(
			[]volume.AccessMode{volume.SingleNodeWriter, volume.SingleNodeReader, volume.MultiNodeSingleWriter,
				volume.MultiNodeMultiWriter}).Draw(l.r, "mode")
		useVolume(j, fmt.Sprintf("v%d", rapid.IntRange(0, 2).Draw(l.r, "source")), mode, func(v *job.VolumeRequest) {
			if rapid.Bool().Draw(l.r, "flags") {
				v.MountOptions = &job.MountOptions{MountFlags: []string{"noatime"}}
			}
			v.ReadOnly, v.PerAlloc = rapid.Bool().Draw(l.r, "read-only"), rapid.Bool().Draw(l.r, "per-alloc")
		})
	}
	if rapid.Bool().Draw(l.r, "spread") {
		j.Spreads = []*job.Spread{{Attribute: "${node.unique.id}", Weight: 50}}
	}
	l.w.register(j)
}

func (l *life) nodeChanges() {
	nodes := l.w.Nodes()
	old := nodes[rapid.IntRange(0, len(nodes)-1).Draw(l.r, "node")]
	n := *old
	switch rapid.IntRange(0, 2).Draw(l.r, "change") {
	case 0:
		n.Status = node.StatusDown
	case 1:
		n.Status = node.StatusReady
	case 2:
		i := *n.CSI[0]
		i.State = rapid.SampledFrom([]plugin.State{plugin.Ready, plugin.Failing}).Draw(l.r, "plugin")
		n.CSI = []*plugin.Instance{&i}
	}
	l.w.putNode(&n)
}

// pick returns an alloc that has not ended, in an order that does not depend on chance.
func (l *life) pick() *alloc.Alloc {
	var all []*alloc.Alloc
	for _, n := range l.w.Nodes() {
		for _, a := range l.w.NodeAllocs(n.ID) {
			if !a.ClientTerminal() {
				all = append(all, a)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(l.r, "alloc")]
}

func (l *life) allocChanges() {
	a := l.pick()
	if a == nil {
		return
	}
	status := rapid.SampledFrom([]string{alloc.ClientRunning, alloc.ClientFailed, alloc.ClientComplete}).Draw(l.r,
		"status")
	l.w.end(a.ID, status)
	l.w.change(a.ID, func(a *alloc.Alloc) { a.Health = &alloc.Health{Healthy: true} })
	if status != alloc.ClientRunning {
		l.w.release(a.ID)
	}
}

// release ends the claims of an alloc that has ended.
func (l *life) release() {
	for _, n := range l.w.Nodes() {
		for _, a := range l.w.NodeAllocs(n.ID) {
			if a.ClientTerminal() {
				l.w.released(a.ID)
			}
		}
	}
}

func (l *life) evaluate(id ids.Job) {
	e := l.w.newEval(id, eval.TriggerJobRegister)
	first, _ := Schedule(l.w.view(), e, l.w.now)
	second, _ := Schedule(l.w.view(), e, l.w.now)
	if d := cmp.Diff(first, second); d != "" {
		l.t.Fatalf("the same evaluation of the same state made two plans:\n%s", d)
	}
	l.w.apply(second)
	if open := len(l.w.blocked(id)); open > 1 {
		l.t.Fatalf("job %s has %d blocked evaluations", id, open)
	}
	l.w.check(l.t)
}

// quiet lets everything come to rest: nodes are ready, what stops has stopped, all is healthy. Then nothing is left to
// do, and nobody waits for somebody who waits for him.
func (l *life) quiet() {
	for _, old := range l.w.Nodes() {
		n, i := *old, *old.CSI[0]
		n.Status, i.State = node.StatusReady, plugin.Ready
		n.CSI = []*plugin.Instance{&i}
		l.w.putNode(&n)
	}
	for range 30 {
		l.w.now = l.w.now.Add(2 * time.Hour)
		moved := false
		for i := range 4 {
			id := ids.Job(fmt.Sprintf("j%d", i))
			if l.w.jobs[id] == nil {
				continue
			}
			p, _ := l.w.schedule(l.w.newEval(id, eval.TriggerJobRegister))
			moved = moved || !p.Empty()
		}
		for id, a := range l.w.allocs {
			switch {
			case a.ClientTerminal():
			case a.ServerTerminal():
				l.w.end(id, alloc.ClientComplete)
				moved = true
			case a.Health == nil:
				l.w.end(id, alloc.ClientRunning)
				l.w.change(id, func(a *alloc.Alloc) { a.Health = &alloc.Health{Healthy: true} })
				moved = true
			}
		}
		before := len(l.w.claims)
		l.release()
		moved = moved || len(l.w.claims) != before
		l.w.check(l.t)
		if !moved {
			l.settled()
			return
		}
	}
	l.t.Fatalf("the cluster does not come to rest")
}

// settled checks the end: every alloc that runs is of its job's present version, or its successor has no place.
func (l *life) settled() {
	for i := range 4 {
		j := l.w.jobs[ids.Job(fmt.Sprintf("j%d", i))]
		if j == nil {
			continue
		}
		got := l.w.live(j.ID)
		if j.Stop {
			if len(got) > 0 {
				l.t.Fatalf("job %s is stopped and runs %s", j.ID, names(got))
			}
			continue
		}
		want := j.TaskGroups[0].Count
		if len(got) > want {
			l.t.Fatalf("job %s wants %d and runs %s", j.ID, want, names(got))
		}
		_, x := Schedule(l.w.view(), l.w.newEval(j.ID, eval.TriggerJobRegister), l.w.now)
		old := 0
		for _, a := range got {
			if a.JobVersion != j.Version {
				old++
			}
		}
		if (len(got) < want || old > 0) && len(x.Failed) == 0 {
			l.t.Fatalf("job %s wants %d of version %d, runs %s, %d of them old, and nothing is in the way", j.ID, want,
				j.Version, names(got), old)
		}
	}
}
