package client_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// processes lists the processes that have the alloc's id in their environment.
func processes(id ids.Alloc) (out []int) {
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	for _, p := range procs {
		if data, err := os.ReadFile(p); err == nil && strings.Contains(string(data), "NOMAD_ALLOC_ID="+string(id)) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// Given a running alloc whose record is lost with the node's store, when a person adopts it, then its node takes it up
// by what its shim holds: the process is the same, what had ended does not run again, and an ordinary stop ends it.
func TestAnAdoptedAllocIsTakenUpWithoutItsRecord(t *testing.T) {
	for _, drv := range []string{"raw_exec", "exec"} {
		t.Run(drv, func(t *testing.T) {
			r := realRig(t)
			first := r.start()
			once := shell("once", drv, `echo ran >> "$NOMAD_ALLOC_DIR/data/once"`)
			once.Lifecycle = &job.TaskLifecycle{Hook: job.HookPrestart}
			id := r.servers.place(service(once, shell("sh", drv, `exec sleep 987654`)))
			eventually(t, "it runs", func() bool {
				a := r.servers.report(id)
				return a != nil && a.TaskStates["sh"].State == alloc.TaskRunning
			})
			var before []int
			eventually(t, "its process is there", func() bool { before = processes(id); return len(before) == 1 })
			_ = r.reversedConn() // of the first run
			first.stop()
			if err := os.RemoveAll(filepath.Join(r.dir, "client")); err != nil {
				t.Fatal(err)
			}

			second := r.start()
			eventually(t, "it is an orphan whose job is known", func() bool {
				o := r.servers.orphan(id)
				return o != nil && o.Job == "web"
			})
			ref := &wire.AgentRef{Node: second.ID(), Alloc: id}
			o, err := wire.AllocOrphan.Call(t.Context(), r.reversedConn(), ref)
			if err != nil || o.Bundle.Alloc.ID != id || len(o.Bundle.Job.TaskGroups[0].Tasks) != 2 {
				t.Fatalf("what it is: %+v, %v", o, err)
			}
			r.servers.edit(id, func(a *alloc.Alloc) { a.JobVersion++ })
			want := r.servers.current()
			eventually(t, "the node has acted on another set", func() bool { return second.Seen().Index >= want })
			if second.Known(id) || r.servers.orphan(id) == nil {
				t.Fatal("it was taken up before a person adopted it")
			}
			r.servers.edit(id, func(a *alloc.Alloc) { a.Adopted = 7 })
			eventually(t, "it is no orphan", func() bool { return second.Known(id) && r.servers.orphan(id) == nil })
			eventually(t, "it is reported as running", func() bool {
				a := r.servers.report(id)
				return a != nil && a.TaskStates["sh"].State == alloc.TaskRunning &&
					a.TaskStates["once"].State == alloc.TaskDead && !a.TaskStates["once"].Failed
			})
			if after := processes(id); len(before) != 1 || len(after) != 1 || before[0] != after[0] {
				t.Errorf("processes before %v, after %v", before, after)
			}
			ran, err := os.ReadFile(filepath.Join(second.AllocDir(), string(id), "alloc/data/once"))
			if err != nil || string(ran) != "ran\n" {
				t.Errorf("what had ended ran again: %q, %v", ran, err)
			}
			second.stop() // its record is one like any other
			third := r.start()
			eventually(t, "the next run of the agent has it", func() bool { return third.Known(id) })
			r.servers.stop(id)
			eventually(t, "it is complete", func() bool { return r.servers.status(id) == alloc.ClientComplete })
			if left := processes(id); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// Given an alloc whose record is lost and whose shim is dead, then nobody can say what it is, and an adoption starts
// nothing of it.
func TestAnAdoptedAllocWithoutRecordAndShimIsNotStarted(t *testing.T) {
	r := realRig(t)
	first := r.start()
	id := r.servers.place(service(shell("sh", "raw_exec", `exec sleep 987654`)))
	other := r.servers.place(service(shell("sh", "raw_exec", `exec sleep 987654`)))
	for _, a := range []ids.Alloc{id, other} {
		eventually(t, "it runs", func() bool { return r.servers.status(a) == alloc.ClientRunning })
	}
	_ = r.reversedConn() // of the first run
	first.stop()
	if err := r.shims.End(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "client")); err != nil {
		t.Fatal(err)
	}
	second := r.start() // still itself, because the other runs
	eventually(t, "it is an orphan", func() bool { return r.servers.orphan(id) != nil })
	ref := &wire.AgentRef{Node: second.ID(), Alloc: id}
	_, err := wire.AllocOrphan.Call(t.Context(), r.reversedConn(), ref)
	if !fault.Has(err, fault.NotReady) || !strings.Contains(err.Error(), "no shim holds its tasks") {
		t.Errorf("what it is: %v", err)
	}
	r.servers.edit(id, func(a *alloc.Alloc) { a.Adopted = 7 })
	want := r.servers.current()
	eventually(t, "the node has heard of it", func() bool { return second.Seen().Index == want })
	if second.Known(id) || len(processes(id)) > 0 || r.servers.orphan(id) == nil {
		t.Errorf("taken up: %v, processes %v", second.Known(id), processes(id))
	}
}
