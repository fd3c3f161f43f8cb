package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/api"
)

// heldBy waits until a volume whose node cannot release it names a holder, and returns it.
func (m *machine) heldBy(volume string, who func(api.VolumeHolder) bool) (found api.VolumeHolder) {
	m.t.Helper()
	v := m.volume(volume, "held", func(v *api.CSIVolume) bool {
		for _, p := range v.Places {
			if i := slices.IndexFunc(p.Holders, who); i >= 0 {
				found = p.Holders[i]
				return true
			}
		}
		return false
	})
	if len(v.WriteAllocs) != 1 {
		m.t.Errorf("the volume is given away while it is held: %+v", v.WriteAllocs)
	}
	return found
}

// TestAForeignMountNamespacePinsAVolume: given a process in a mount namespace that was copied while a volume was in
// use, when its job ends, then the claim stays and the process is named; the same node runs the next job on the very
// data; and when the process has gone, everything ends.
func TestAForeignMountNamespacePinsAVolume(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.run(writer{id: "user", volume: "a"}.hcl())
	first := m.running("user", 1)[0]
	m.lives(m.pid(first.ID, "write", "/bin/sh"), 0)

	holder := exec.Command("sleep", "1000")
	holder.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	must(t, holder.Start())
	end := func() { _ = holder.Process.Kill(); _ = holder.Wait() }
	t.Cleanup(end)
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", holder.Process.Pid))
	must(t, err)

	m.tellStop("user")
	h := m.heldBy("a", func(h api.VolumeHolder) bool { return h.PID == holder.Process.Pid })
	if h.Command != "sleep" || h.MountNamespace != ns || h.Alloc != "" {
		t.Errorf("the holder is %+v, want one of %s", h, ns)
	}
	out, code := m.cli("volume", "status", "a")
	for _, word := range []string{"Held By", strconv.Itoa(h.PID), ns, "held by pid"} {
		if code != 0 || !strings.Contains(out, word) {
			t.Errorf("volume status does not say %q (exit code %d):\n%s", word, code, out)
		}
	}
	if left := volumeMounts(m); len(left) > 0 {
		t.Errorf("it is still mounted here: %v", left)
	}

	m.run(writer{id: "next", volume: "a"}.hcl())
	again := m.running("next", 1)[0]
	pid := m.pid(again.ID, "write", "/bin/sh")
	m.lives(pid, 0)
	if log := m.seen(pid, "/data/log"); log != "started\nstopped\nstarted\n" {
		t.Errorf("the volume tells: %q", log)
	}
	m.tellStop("next")
	m.heldBy("a", func(h api.VolumeHolder) bool { return h.PID == holder.Process.Pid })
	end()
	m.free("a")
	p.atRest("a")
	m.remove("a")
}

// TestAnAllocThatPinsAVolumeKeepsOthersFromIt: it is in no table of the node's namespace, and may write.
func TestAnAllocThatPinsAVolumeKeepsOthersFromIt(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.run(writer{id: "user", volume: "a"}.hcl())
	first := m.running("user", 1)[0]
	m.lives(m.pid(first.ID, "write", "/bin/sh"), 0)
	m.run(`
job "copies" {
  type = "service"
  group "g" {
    task "copy" {
      driver = "raw_exec"
      config {
        command = "unshare"
        args    = ["-m", "sleep", "1000"]
      }
    }
  }
}`)
	inside := m.running("copies", 1)[0]
	m.pid(inside.ID, "copy", "sleep")

	m.tellStop("user")
	h := m.heldBy("a", func(h api.VolumeHolder) bool { return h.Alloc == inside.ID })
	if h.MountNamespace == "" || h.Command != "sleep" {
		t.Errorf("the holder is %+v", h)
	}
	m.run(writer{id: "next", volume: "a"}.hcl())
	m.volume("a", "kept from its next user", func(v *api.CSIVolume) bool {
		return strings.Contains(strings.Join(v.State, "\n"), "stage again what is held")
	})
	if n := p.count("NodeStage"); n != 1 {
		t.Errorf("staged %d times beside an alloc that may write: %v", n, p.calls())
	}
	m.stopJob("copies")
	next := m.running("next", 1)[0]
	m.lives(m.pid(next.ID, "write", "/bin/sh"), 0)
	m.stopJob("next")
	m.free("a")
	p.atRest("a")
	m.remove("a")
}
