package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/api"
	"berth/internal/port/hostfs"
)

// touchy is a job whose task ends when it cannot write, and starts again. Each start leaves a line on the volume.
func touchy(id, volume, writing string) string {
	w := writer{
		id:     id,
		volume: volume,
		script: `trap 'exit 0' TERM INT; echo started >> /data/log && sync /data/log || exit 1
` + writing,
	}
	return strings.NewReplacer(`attempts = 0
      mode     = "fail"`, `attempts = 10
      delay    = "1s"
      mode     = "delay"`).Replace(w.hcl())
}

// staging waits until a volume is staged, and returns where that is on the host.
func (m *machine) staging(id string) string {
	m.t.Helper()
	target := m.volume(id, "published", func(v *api.CSIVolume) bool {
		return len(v.Places) == 1 && len(v.Places[0].Paths) == 1
	}).Places[0].Paths[0]
	table, err := hostfs.ReadTable()
	must(m.t, err)
	published, _ := table.At(target)
	for _, mount := range table.Beneath(filepath.Join(m.data, "csi")) {
		if mount.Device == published.Device && filepath.Base(filepath.Dir(mount.Path)) == "s" {
			return mount.Path
		}
	}
	m.t.Fatalf("there is no staging of what is published at %s", target)
	return ""
}

// saysAnywhere reports whether an event of a task has these words.
func saysAnywhere(a *api.AllocationListStub, task, words string) bool {
	if a.TaskStates[task] == nil {
		return false
	}
	for _, e := range a.TaskStates[task].Events {
		if strings.Contains(e.DisplayMessage, words) {
			return true
		}
	}
	return false
}

// TestAVolumeThatBecameReadOnlyIsMountedAnew: given a task on a volume of the bundled plugin, when the file system
// becomes read-only under it and it ends for that, then it does not start on it again: event and volume status say why,
// the volume is unstaged and staged anew, and the task goes on there.
func TestAVolumeThatBecameReadOnlyIsMountedAnew(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.run(touchy("user", "a", `while date +%s%N > /data/tick.0; do sleep 0.1 & wait $!; done; exit 1`))
	user := m.running("user", 1)[0]
	m.lives(m.pid(user.ID, "write", "/bin/sh"), 0)
	p.rules("(NodeUnstage * hold)")
	p.mark("mounts-lost")
	at := m.staging("a")
	m.eventually("the file system to become read-only", func() bool {
		err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
		if err != nil && err != unix.EBUSY { // the task writes just now
			t.Fatal(err)
		}
		return err == nil
	})
	const why = "its file system has become read-only"
	m.volume("a", "said to be read-only", func(v *api.CSIVolume) bool {
		return len(v.Places) == 1 && strings.Contains(v.Places[0].LastError, why)
	})
	if out, code := m.cli("volume", "status", "a"); code != 0 || !strings.Contains(out, why) {
		t.Errorf("volume status says, with code %d:\n%s", code, out)
	}
	p.rules()
	m.eventually("the task to write on the volume mounted anew", func() bool {
		a := m.running("user", 1)[0]
		found := processesOfTask(a.ID, "write", "/bin/sh")
		if len(found) == 0 {
			return false
		}
		log, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(found[0].pid), "root/data/log"))
		return err == nil && strings.Count(string(log), "started\n") == 2
	})
	user = m.running("user", 1)[0]
	if n := user.TaskStates["write"].Restarts; n != 1 || !saysAnywhere(user, "write", why) {
		t.Errorf("it was restarted %d times, and its events are %+v", n, user.TaskStates["write"].Events)
	}
	m.lives(m.pid(user.ID, "write", "/bin/sh"), 0)
	m.stopJob("user")
	p.atRest("a")
	m.remove("a")
}

// TestAVolumeOnAFullDiskGoesOnWhenThereIsRoom: given a volume whose image cannot grow any more, so that its file system
// gives up, then its task is not started on that again and again; when there is room, the plugin has the file system
// checked and mounted, and the task finds what it had synced.
func TestAVolumeOnAFullDiskGoesOnWhenThereIsRoom(t *testing.T) {
	m := newMachine(t, false)
	images := filepath.Join(m.rig, "images-own")
	must(t, os.Mkdir(images, 0o755))
	must(t, unix.Mount("tmpfs", images, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { must(t, unix.Unmount(images, unix.MNT_DETACH)) }) // the plugin works there until the agent ends
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	ballast := filepath.Join(images, "ballast")
	m.fill(images, ballast, 4<<20)
	m.run(touchy("user", "a", `
while dd if=/dev/zero of=/data/ballast bs=64k count=250 conv=fsync && date +%s%N > /data/tick.0; do sleep 0.1 & wait $!; done
exit 1`))
	p.mark("mounts-lost")
	m.eventually("the file system to be found dead", func() bool {
		all, _, err := m.allocs("user")(t.Context(), nil)
		must(t, err)
		return len(all) == 1 && saysAnywhere(all[0], "write", "its file system")
	})
	must(t, os.Remove(ballast))
	m.eventually("the task to write again", func() bool {
		all, _, err := m.allocs("user")(t.Context(), nil)
		must(t, err)
		for _, a := range all {
			for _, p := range processesOfTask(a.ID, "write", "/bin/sh") {
				if _, err := os.Stat(filepath.Join("/proc", fmt.Sprint(p.pid), "root/data/tick.0")); err == nil {
					return true
				}
			}
		}
		return false
	})
	user := m.running("user", 1)[0]
	if n := user.TaskStates["write"].Restarts; n > 10 {
		t.Errorf("it was restarted %d times", n)
	}
	log := m.seen(m.pid(user.ID, "write", "/bin/sh"), "/data/log")
	if !strings.HasPrefix(log, "started\nstarted\n") {
		t.Errorf("what was synced is gone: %q", log)
	}
	m.stopJob("user")
	p.atRest("a")
	m.remove("a")
}

// fill leaves so many bytes of the file system that a directory is on.
func (m *machine) fill(dir, file string, left int64) {
	m.t.Helper()
	var fs unix.Statfs_t
	must(m.t, unix.Statfs(dir, &fs))
	f, err := os.Create(file)
	must(m.t, err)
	must(m.t, unix.Fallocate(int(f.Fd()), 0, 0, int64(fs.Bavail)*fs.Bsize-left))
	must(m.t, f.Close())
}
