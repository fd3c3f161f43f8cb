package e2e

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/testkit/powerloss"
)

// What was acknowledged in the course of TestAPowerLossUnderAStatefulJob, in this order.
const (
	created = iota + 1 // the volume
	registered
	written // by the task, and synced
	stopped
	deleted
)

// lastingWriter is a job that survives a reboot. Each start leaves a line on the volume, which is synced before its
// tick appears.
func lastingWriter() string {
	w := writer{
		id:     "user",
		volume: "a",
		script: `trap 'exit 0' TERM INT; echo started >> /data/log; sync /data/log /data
			while :; do date +%s%N > /data/tick.0; sleep 0.1 & wait $!; done`,
	}
	return again(w)
}

// again is the job of a writer that is started again when its process has ended.
func again(w writer) string {
	return strings.NewReplacer(`attempts = 0
      mode     = "fail"`, `attempts = 10
      delay    = "1s"
      mode     = "delay"`).Replace(w.hcl())
}

// Given an agent with its bundled plugin and a job that keeps data, when the power fails at any moment from the first
// start to the deletion of the volume, then the agent starts on what the disk has kept: the volume, the job and the
// data are there as they were acknowledged, the job goes on, and everything can be stopped and deleted.
func TestAPowerLossUnderAStatefulJob(t *testing.T) {
	m := prepare(t, true)
	must(t, os.Mkdir(m.data, 0o711))
	d := powerloss.Mount(t, powerloss.Config{
		Dir:   m.data,
		Cuts:  2,
		Most:  120,
		Delay: time.Millisecond,
	})
	m.start()
	m.awaitPlugin("local-csi")
	m.create("a", "local-csi")
	d.Ack() // created
	m.run(lastingWriter())
	d.Ack() // registered
	user := m.running("user", 1)[0]
	m.lives(m.pid(user.ID, "write", "/bin/sh"), 0)
	d.Ack() // written
	m.stopJob("user")
	m.free("a")
	d.Ack() // stopped
	m.remove("a")
	d.Ack() // deleted
	must(t, m.stop())
	d.Unmount()
	d.Each(func(t *testing.T, c powerloss.Cut, _ string) {
		before := m.t
		m.t = t
		defer func() {
			if m.cmd != nil { // it failed: the next cut has an agent of its own, and finds no task or mount of this one
				if err := m.stop(); err != nil {
					t.Error(err)
				}
			}
			m.t = before
		}()
		powerloss.Reboot(t)
		m.start()
		m.awaitPlugin("local-csi")
		m.goesOn(c.Acked)
		must(t, m.stop())
	})
}

// goesOn looks at a machine that lost its power after so much was acknowledged, and takes away all that is there.
func (m *machine) goesOn(acked int) {
	t := m.t
	t.Helper()
	v, _, err := m.api.Volumes().Get(t.Context(), "a", nil)
	if api.IsNotFound(err) {
		if acked >= created && acked < stopped {
			t.Fatalf("the volume is gone: %v", err)
		}
		return
	}
	must(t, err)
	if acked >= deleted {
		t.Errorf("the deleted volume is there again: %+v", v)
	}
	job, _, err := m.api.Jobs().Get(t.Context(), "user", nil)
	switch {
	case err != nil && (acked >= registered || !api.IsNotFound(err)):
		t.Fatalf("the job: %v", err)
	case err == nil && acked >= stopped && !*job.Stop:
		t.Error("the stopped job runs again")
	case err == nil && !*job.Stop:
		user := m.running("user", 1)[0]
		// What was recorded before the power failed may say for a moment that it runs.
		await(m, "the task to have a process", m.allocs("user"), func([]*api.AllocationListStub) bool {
			return len(processesOfTask(user.ID, "write", "/bin/sh")) > 0
		})
		pid := m.pid(user.ID, "write", "/bin/sh")
		m.lives(pid, 0)
		if log := m.seen(pid, "/data/log"); acked >= written && strings.Count(log, "started\n") < 2 {
			t.Errorf("what was synced is gone; the volume holds %q", log)
		}
		m.stopJob("user")
	}
	m.delete("a", acked >= stopped) // the next that it was asked for was the deletion
	for _, id := range m.external("local-csi") {
		t.Errorf("left at the provider: %s", id)
	}
}

// delete waits until a volume is free and deletes it. begun says that a deletion may go on from before: then it may
// be gone at any moment.
func (m *machine) delete(id string, begun bool) {
	m.t.Helper()
	gone := func(err error) bool { return begun && api.IsNotFound(err) }
	m.eventually("volume "+id+" to be free", func() bool {
		v, _, err := m.api.Volumes().Get(m.t.Context(), id, nil)
		if !gone(err) {
			must(m.t, err)
		}
		return gone(err) || len(v.Allocations)+len(v.WriteAllocs)+len(v.ReadAllocs) == 0
	})
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := m.api.Volumes().Delete(ctx, id, nil, time.Minute, nil); !gone(err) {
		must(m.t, err)
	}
}

// external waits until a plugin can be asked for its volumes, and returns their ids. That the servers call it healthy
// says nothing of that: what they know of it may be from before the power failed, and a volume whose creation never
// reached the plugin is deleted without it.
func (m *machine) external(plugin string) (out []string) {
	m.t.Helper()
	m.eventually("plugin "+plugin+" to list its volumes", func() bool {
		all, _, err := m.api.Volumes().ListExternal(m.t.Context(), plugin, nil)
		if err != nil {
			m.t.Logf("plugin %s: %v", plugin, err)
			return false
		}
		for _, e := range all.Volumes {
			out = append(out, e.ExternalID)
		}
		return true
	})
	return out
}
