package rank

import (
	"testing"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// Given a node that has something left, when a group asks for more, then the sentence has the figures, the ports their
// holders, and each the way out.
func TestARefusalForLackOfCapacityHasFiguresAndHolders(t *testing.T) {
	n := small()
	n.Reserved = node.Resources{ReservedPorts: []int{22}}
	n.Resources.CPUShares, n.Resources.MemoryMB = 4000, 2048
	n.Resources.DiskMB = 12345
	n.Resources.MaxDynamicPort = 101
	postgres := &alloc.Alloc{ID: "075e7666-1111", Job: "postgres", Resources: alloc.Resources{
		Tasks: map[string]alloc.TaskResources{"t": {CPUShares: 3000, MemoryMB: 848}},
		Ports: []alloc.PortMapping{{Label: "db", Value: 4755}, {Label: "x", Value: 100}},
	}}
	going := &alloc.Alloc{ID: "11111111-2222", Job: "redis", DesiredStatus: alloc.DesiredStop}
	going.Resources.Ports = []alloc.PortMapping{{Label: "r", Value: 6379}}
	r := capacity(n, postgres, going)
	memory := func(mb int) *job.TaskGroup {
		g := group(1)
		g.Tasks[0].Resources.MemoryMB = mb
		return g
	}
	both := func(cpu, mb int) *job.TaskGroup {
		g := group(cpu)
		g.Tasks[0].Resources.MemoryMB = mb
		return g
	}
	disk := group(1)
	disk.EphemeralDisk = &job.EphemeralDisk{SizeMB: 20000}
	for _, c := range []struct {
		asked *job.TaskGroup
		want  string
	}{
		{memory(4096), "memory: asks 4,096 MiB, 1,200 of 2,048 free " +
			"(the node is too small however empty it is: ask for less, or add a larger one)"},
		{memory(2049), "memory: asks 2,049 MiB, 1,200 of 2,048 free " +
			"(the node is too small however empty it is: ask for less, or add a larger one)"},
		{memory(2048), "memory: asks 2,048 MiB, 1,200 of 2,048 free (" + askForLess + ")"},
		{memory(1201), "memory: asks 1,201 MiB, 1,200 of 2,048 free (" + askForLess + ")"},
		{group(1001), "cpu: asks 1,001 MHz, 1,000 of 4,000 free (" + askForLess + ")"},
		{both(1001, 1201), "cpu: asks 1,001 MHz, 1,000 of 4,000 free; memory: asks 1,201 MiB, 1,200 of 2,048 free (" +
			askForLess + ")"},
		{both(1001, 2049), "cpu: asks 1,001 MHz, 1,000 of 4,000 free; memory: asks 2,049 MiB, 1,200 of 2,048 free " +
			"(the node is too small however empty it is: ask for less, or add a larger one)"},
		{disk, "disk: asks 20,000 MiB, 12,345 of 12,345 free (what else lies on the node's disk leaves no more, " +
			"whatever is stopped: make room beneath the agent's data_dir, ask for less, or add a node with a larger " +
			"disk)"},
		{group(1, job.Port{Label: "db", Value: 4755}),
			"port 4755 (db) is held by alloc 075e7666 of job \"postgres\" " +
				"(ask for another port, leave static out, or stop that job)"},
		{group(1, job.Port{Label: "r", Value: 6379}),
			"port 6379 (r) is held by alloc 11111111 of job \"redis\", which is being stopped " +
				"(this one is placed as soon as its processes are gone)"},
		{group(1, job.Port{Label: "ssh", Value: 22}), "port 22 (ssh) is kept back by the node's configuration " +
			"(ask for another port, or take it out of reserved_ports of the node's agent)"},
		{group(1, job.Port{Label: "a"}, job.Port{Label: "b"}),
			"ports: asks 2 dynamic ones, 1 of the ports 100 to 101 are free " +
				"(stop other jobs there, or widen min_dynamic_port and max_dynamic_port of the node's agent)"},
	} {
		s := r.Shortage(NewAsk(&job.Job{}, c.asked), false)
		if got := s.Reason + " (" + s.Hint + ")"; got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	own := NewAsk(&job.Job{}, group(1, job.Port{Label: "web", Value: 80}))
	r.Put(own, r.Choose(own, "new"), "g", "new")
	if got := r.Shortage(own, false).Reason; got != "port 80 (web) is held by another allocation of this job" {
		t.Error(got)
	}
	if got := r.Shortage(NewAsk(&job.Job{}, group(1)), false); got != (Shortage{}) {
		t.Errorf("what fits: %v", got)
	}
}
