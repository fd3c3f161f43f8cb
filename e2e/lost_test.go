package e2e

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/api"
	"berth/internal/port/hostfs"
)

// TestALostMountRestartsItsUsers: given two tasks on two volumes, when somebody unmounts one volume under its task,
// then exactly that task restarts, on the volume mounted anew, and nothing was written beside it meanwhile.
func TestALostMountRestartsItsUsers(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	for _, id := range []string{"a", "b"} {
		m.create(id, "own")
		m.run(writer{id: "writer-" + id, volume: id}.hcl())
	}
	victim, bystander := m.running("writer-a", 1)[0], m.running("writer-b", 1)[0]
	was, other := m.pid(victim.ID, "write", "/bin/sh"), m.pid(bystander.ID, "write", "/bin/sh")
	m.lives(was, 0)

	path := m.volume("a", "be published", func(v *api.CSIVolume) bool {
		return len(v.Places) == 1 && len(v.Places[0].Paths) == 1
	}).Places[0].Paths[0]
	p.mark("mounts-lost")
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	m.eventually("the task to restart on the remade mount", func() bool {
		table, err := hostfs.ReadTable()
		if err != nil {
			t.Fatal(err)
		}
		_, mounted := table.At(path)
		a := m.running("writer-a", 1)[0]
		return mounted && a.TaskStates["write"].Restarts == 1 && a.TaskStates["write"].State == "running"
	})
	now := m.pid(victim.ID, "write", "/bin/sh")
	if now == was {
		t.Errorf("process %d goes on although its volume was unmounted", was)
	}
	m.eventually("the restarted task to write beside what it wrote before", func() bool {
		return strings.Count(m.seen(now, "/data/log"), "started") == 2
	})
	if m.pid(bystander.ID, "write", "/bin/sh") != other {
		t.Error("a task of another volume was restarted too")
	}
	m.stopJob("writer-a")
	m.stopJob("writer-b")
	p.atRest("a", "b")
	m.remove("a")
	m.remove("b")
}
