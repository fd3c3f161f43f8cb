package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/api"
	"berth/internal/conformance/csi/proxy"
)

// mockDriver runs kubernetes-csi's mock-driver as a job. It moves no data: the proxy mounts on its behalf.
func (m *machine) mockDriver(id string, flags ...string) *judged {
	m.t.Helper()
	program := filepath.Join(m.rig, "mock-driver")
	build := exec.Command("go", "build", "-trimpath", "-o", program,
		"github.com/kubernetes-csi/csi-test/v4/cmd/mock-driver")
	build.Dir = "../tools/mockdriver"
	if out, err := build.CombinedOutput(); err != nil {
		m.t.Fatalf("build mock-driver: %v\n%s", err, out)
	}
	p := &judged{
		m:      m,
		id:     id,
		driver: "raw_exec",
		argv:   append([]string{program, "-permissive-target-path"}, flags...),
		faults: []string{"(* * mount-tmpfs)"},
	}
	return p.begin()
}

// TestAPluginThatNobodyHereWrote: attach, topology and expansion with the mock-driver of kubernetes-csi.
func TestAPluginThatNobodyHereWrote(t *testing.T) {
	m := newMachine(t, false)
	p := m.mockDriver("mock", "-enable-topology", "-node-expand-required")
	v := m.create("a", "mock")
	if len(v.Topologies) == 0 {
		t.Errorf("the volume has no topology: %+v", v)
	}
	m.run(writer{id: "user", volume: "a"}.hcl())
	user := m.running("user", 1)[0]
	pid := m.pid(user.ID, "write", "/bin/sh")
	m.lives(pid, 0)

	_, _, err := m.api.Volumes().Expand(t.Context(), "a",
		&api.CSIVolumeExpandRequest{CapacityMin: 128 << 20, CapacityMax: 1 << 30}, nil)
	must(t, err)
	m.volume("a", "larger", func(v *api.CSIVolume) bool { return v.Capacity >= 128<<20 })
	m.eventually("the expansion on the node", func() bool { return p.count("NodeExpand") == 1 })
	m.lives(pid, 0)

	m.stopJob("user")
	p.atRest("a")
	m.remove("a")
	want := []string{"Create", "ControllerPublish", "NodeStage", "NodePublish", "ControllerExpand", "NodeExpand",
		"NodeUnpublish", "NodeUnstage", "ControllerUnpublish", "Delete"}
	var got []string
	for _, c := range p.calls() {
		got = append(got, strings.TrimSuffix(c, "Volume"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls:\n%v\nwant:\n%v", got, want)
	}
}

// TestPluginGoneBeforeItsUser: given a volume in use, when the plugin's job is stopped and then the user's, then the
// claim is kept as releasing until the plugin is back, and is freed by a real unpublish.
func TestPluginGoneBeforeItsUser(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.run(writer{id: "user", volume: "a"}.hcl())
	user := m.running("user", 1)[0]
	pid := m.pid(user.ID, "write", "/bin/sh")
	m.lives(pid, 0)

	m.stopJob("own")
	m.lives(pid, 0) // a volume needs its plugin to come and to go, not to be used
	m.tellStop("user")
	m.volume("a", "releasing", func(v *api.CSIVolume) bool {
		return strings.Contains(strings.Join(v.State, "\n"), "releasing")
	})
	m.settle()
	v, _, err := m.api.Volumes().Get(t.Context(), "a", nil)
	must(t, err)
	state := strings.Join(v.State, "\n")
	if !strings.Contains(state, "releasing") || !strings.Contains(state, user.ID[:8]) ||
		!strings.Contains(state, "own") {
		t.Errorf("the volume says: %q", state)
	}
	if len(v.WriteAllocs) != 1 {
		t.Errorf("the claim was freed without its plugin: %+v", v)
	}
	if len(volumeMounts(m)) == 0 {
		t.Error("the volume is not mounted any more, though its plugin was gone")
	}
	if p.count("NodeUnpublish") != 0 {
		t.Errorf("calls: %v", p.calls())
	}

	p.start()
	m.free("a")
	if p.count("NodeUnpublish") != 1 || p.count("NodeUnstage") != 1 {
		t.Errorf("calls: %v", p.calls())
	}
	p.atRest("a")
	m.remove("a")
}

// TestPluginDiesDuringUnpublish: given a plugin that is killed in the middle of NodeUnpublish, then the claim is not
// freed while anything is mounted.
func TestPluginDiesDuringUnpublish(t *testing.T) {
	for name, fault := range map[string]string{"before its effect": "crash-before", "after its effect": "crash-after"} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, false)
			p := m.localPlugin("own", "raw_exec")
			m.create("a", "own")
			m.run(writer{id: "user", volume: "a"}.hcl())
			user := m.running("user", 1)[0]
			m.lives(m.pid(user.ID, "write", "/bin/sh"), 0)

			p.rules("(NodeUnpublish * " + fault + ")")
			lives := p.lives()
			m.tellStop("user")
			m.eventually("the death of the plugin", func() bool { return len(p.ended()) == 1 })
			p.rules()
			m.volume("a", "free, and never before it is unmounted", func(v *api.CSIVolume) bool {
				free := len(v.WriteAllocs) == 0
				if left := volumeMounts(m); free && len(left) > 0 {
					t.Errorf("the volume is free, and mounted at %v", left)
				}
				return free
			})
			if now := p.lives(); now != lives+1 {
				t.Errorf("%d lives of the plugin, then %d", lives, now)
			}
			if p.count("NodeUnpublish") != 1 || p.count("NodeUnstage") != 1 {
				t.Errorf("calls: %v", p.calls())
			}
			p.atRest("a")
			m.remove("a")
		})
	}
}

// TestTwoAllocsShareAVolume: given two allocs of one job on a multi-writer volume with mount options, when the agent
// restarts and one alloc is stopped, then the volume is not unstaged under the other.
func TestTwoAllocsShareAVolume(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own", "multi-node-multi-writer")
	w := writer{
		id:      "users",
		volume:  "a",
		count:   2,
		access:  "multi-node-multi-writer",
		options: "fs_type = \"ext4\"\nmount_flags = [\"noatime\"]",
	}
	m.run(w.hcl())
	users := m.running("users", 2)
	pids := map[string]int{}
	for _, u := range users {
		pids[u.Name] = m.pid(u.ID, "write", "/bin/sh")
		m.lives(pids[u.Name], index(u))
	}
	if p.count("NodeStage") != 1 || p.count("NodePublish") != 2 {
		t.Errorf("calls: %v", p.calls())
	}

	m.kill()
	p.mark(proxy.CallerCrashed)
	m.start()
	m.awaitPlugin("own")
	w.count = 1
	m.run(w.hcl())
	m.eventually("one unpublish", func() bool { return p.count("NodeUnpublish") == 1 })
	left := m.running("users", 1)[0]
	m.settle()
	if p.count("NodeUnstage") != 0 {
		t.Errorf("the volume was unstaged under %s: %v", left.Name, p.calls())
	}
	if now := m.pid(left.ID, "write", "/bin/sh"); now != pids[left.Name] {
		t.Errorf("the process of %s was %d and is %d", left.Name, pids[left.Name], now)
	}
	m.lives(pids[left.Name], index(left))
	m.stopJob("users")
	p.atRest("a")
	m.remove("a")
	if p.count("NodeUnpublish") != 2 || p.count("NodeUnstage") != 1 {
		t.Errorf("calls: %v", p.calls())
	}
}

// index of an alloc in its group: "job.group[1]" gives 1.
func index(a *api.AllocationListStub) int {
	return int(a.Name[strings.LastIndex(a.Name, "[")+1] - '0')
}

// TestBundledPluginIsKilled: the bundled plugin, too, comes back when it is killed; nobody's data is touched.
func TestBundledPluginIsKilled(t *testing.T) {
	m := newMachine(t, true)
	m.create("a", "local-csi")
	m.run(writer{id: "user", volume: "a"}.hcl())
	user := m.running("user", 1)[0]
	pid := m.pid(user.ID, "write", "/bin/sh")
	m.lives(pid, 0)
	plugins := func() []process {
		return processes(func(p process) bool {
			return len(p.args) > 2 && p.args[1] == "plugin" && p.args[2] == "local-csi" &&
				slices.Contains(p.args, filepath.Join(m.data, "volumes"))
		})
	}
	old := plugins()[0].pid
	must(t, syscall.Kill(old, syscall.SIGKILL))
	m.eventually("another plugin", func() bool { now := plugins(); return len(now) == 1 && now[0].pid != old })
	m.lives(pid, 0)
	m.awaitPlugin("local-csi")
	m.create("b", "local-csi")
	m.tellStop("user")
	m.remove("a")
	m.remove("b")
}
