package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"berth/api"
)

// counting writes one line after the other, each on disk before its number is acknowledged.
const counting = `n=$(cat /data/lines 2>/dev/null | wc -l)
while :; do
  n=$((n + 1)); echo $n >> /data/lines; sync /data/lines; echo $n > /data/acked.new; mv /data/acked.new /data/acked
  sleep 0.02
done`

// acknowledged waits until a counting task has acknowledged more than a number of lines, and returns how many.
func (m *machine) acknowledged(pid, more int) (n int) {
	m.t.Helper()
	m.eventually("the task to write lines", func() bool {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/data/acked", pid))
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err == nil && n > more
	})
	return n
}

// lines fails the test unless the lines of a counting task are there, in order and without a gap, up to a number.
func (m *machine) lines(pid, least int) {
	m.t.Helper()
	all := strings.Fields(m.seen(pid, "/data/lines"))
	if len(all) < least {
		m.t.Fatalf("of %d acknowledged lines %d are there", least, len(all))
	}
	for i, line := range all {
		if line != strconv.Itoa(i+1) {
			m.t.Fatalf("line %d is %q", i+1, line)
		}
	}
}

// guide plays the commands of a section of a page, with the paths of this machine; one that runs an agent starts it,
// and one that removes the package stops it.
func (m *machine) guide(page, section string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs", page))
	must(m.t, err)
	_, part, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		m.t.Fatalf("%s has no section %q", page, section)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(part, -1)
	if len(blocks) == 0 {
		m.t.Fatalf("section %q has no commands", section)
	}
	paths := strings.NewReplacer("/var/lib/berth", m.data, "/mnt/backup", m.backups(), "/etc/berth", m.root)
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			if strings.HasPrefix(line, "berth agent ") {
				m.start()
				continue
			}
			if strings.HasPrefix(line, "apt purge ") {
				must(m.t, m.stop())
				continue
			}
			m.shell(paths.Replace(line))
		}
	}
}

func (m *machine) backups() string { return filepath.Join(m.root, "backup") }

// shell runs a line as a person types it, and returns what it says.
func (m *machine) shell(line string) string {
	m.t.Helper()
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Env = append(os.Environ(), "BERTH_ADDR=unix://"+m.socket(),
		"PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s\n%s", line, err, out, m.tail())
	}
	return string(out)
}

// lost loses the machine: everything ends, and its disk is gone.
func (m *machine) lost() {
	m.t.Helper()
	m.dies()
	must(m.t, unmountAll(m.root))
	must(m.t, os.RemoveAll(m.data))
}

// backedUp is a machine that will be lost.
func backedUp(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t, true)
	must(t, os.Mkdir(m.backups(), 0o700))
	return m
}

// counter is a job that writes lines on a volume, and goes on after its process has ended.
func counter(volume string) string {
	return again(writer{id: "count-" + volume, volume: volume, script: counting})
}

// counting is the process of such a job.
func (m *machine) counting(volume string) int {
	m.t.Helper()
	m.eventually("the task on volume "+volume+" to run", func() bool { return m.runs("count-" + volume) })
	return m.pid(m.running("count-"+volume, 1)[0].ID, "write", "/bin/sh")
}

// TestTheGuideBringsALostMachineBack: given a machine whose tasks write lines, when the commands of docs/backup.md are
// played, and between saving and putting back the machine loses everything, then the tasks run again, and every line
// that was acknowledged before the backup began is there.
func TestTheGuideBringsALostMachineBack(t *testing.T) {
	m := backedUp(t)
	written := map[string]int{}
	for _, id := range []string{"a", "b"} {
		m.create(id, "local-csi")
		m.run(counter(id))
	}
	m.run(plain("plain"))
	for _, id := range []string{"a", "b"} {
		written[id] = m.acknowledged(m.counting(id), 20)
	}
	m.running("plain", 1)
	m.guide("backup.md", "Save")
	for _, id := range []string{"a", "b"} { // they write on
		m.acknowledged(m.counting(id), written[id])
	}
	if left, _, err := m.api.Volumes().ListSnapshots(t.Context(), "local-csi", nil, nil); err != nil ||
		len(left.Snapshots) > 0 {
		t.Errorf("the backup has left snapshots: %+v, %v", left, err)
	}
	m.lost()
	m.guide("backup.md", "Put back")
	m.healed()
	for _, id := range []string{"a", "b"} {
		pid := m.counting(id)
		m.acknowledged(pid, written[id])
		m.lines(pid, written[id])
	}
	m.running("plain", 1)
	for _, id := range []string{"count-a", "count-b", "plain"} {
		m.stopJob(id)
	}
	m.remove("a")
	m.remove("b")
}

// runs reports whether a process of a job's task runs.
func (m *machine) runs(job string) bool {
	m.t.Helper()
	all, _, err := m.api.Jobs().Allocations(m.t.Context(), job, true, nil)
	must(m.t, err)
	for _, a := range all {
		if a.ClientStatus == api.AllocClientStatusRunning && len(processesOfTask(a.ID, "write", "/bin/sh")) > 0 {
			return true
		}
	}
	return false
}

// savedState has the state of the servers saved, as a person may have done at another time than the rest of a backup.
func (m *machine) savedState(name string) string {
	m.t.Helper()
	file := filepath.Join(m.backups(), name)
	m.must("operator", "snapshot", "save", file)
	return file
}

// bringBack puts a backup back on a machine that was lost, with another state of the servers than its own, and ends the
// recovery.
func (m *machine) bringBack(backup, state string) {
	m.t.Helper()
	m.must("operator", "backup", "restore", "-data-dir", m.data, backup)
	data, err := os.ReadFile(state)
	must(m.t, err)
	must(m.t, os.WriteFile(filepath.Join(m.data, "server", "restore.snap"), data, 0o600))
	m.start()
	m.must("operator", "recovery", "finish", "-yes")
	m.healed()
	m.awaitPlugin("local-csi")
}

// TestVolumesMadeAndDeletedDuringABackup: given a state of the servers that is older than the rest of the backup, as
// where a volume was made and another one deleted after it was saved, when the machine is lost and put back, then what
// both know goes on; the new volume has its data and can be registered; the deleted one is given to nobody.
func TestVolumesMadeAndDeletedDuringABackup(t *testing.T) {
	m := backedUp(t)
	m.create("a", "local-csi")
	m.create("gone", "local-csi")
	m.run(counter("a"))
	m.acknowledged(m.counting("a"), 5)
	state := m.savedState("earlier.snap")
	m.remove("gone")
	late := m.create("late", "local-csi")
	m.run(counter("late"))
	written := map[string]int{
		"a":    m.acknowledged(m.counting("a"), 10),
		"late": m.acknowledged(m.counting("late"), 10),
	}
	backup := filepath.Join(m.backups(), "monday")
	m.must("operator", "backup", "save", backup)
	m.lost()
	m.bringBack(backup, state)
	m.lines(m.counting("a"), written["a"])
	m.endOrphans()
	register := &api.CSIVolume{ID: "late", Name: "late", PluginID: "local-csi", ExternalID: late.ExternalID}
	register.RequestedCapabilities = append(register.RequestedCapabilities,
		capability("single-node-writer", "file-system"))
	m.eventually("the late volume to be registered", func() bool {
		_, _, err := m.api.Volumes().Register(t.Context(), register, nil)
		return err == nil
	})
	m.run(counter("late"))
	m.lines(m.counting("late"), written["late"])
	m.run(counter("gone"))
	m.waits("gone", "gone")
	for _, id := range []string{"a", "late", "gone"} {
		m.stopJob("count-" + id)
		m.remove(id)
	}
}

// TestANodeStoreThatIsOlderThanTheState: given a state of the servers that is newer than the rest of the backup, when
// the machine is lost and put back, then what both know goes on; a volume that the backup does not have is given to
// nobody, and none is made in its place.
func TestANodeStoreThatIsOlderThanTheState(t *testing.T) {
	m := backedUp(t)
	m.create("a", "local-csi")
	m.run(counter("a"))
	written := m.acknowledged(m.counting("a"), 10)
	backup := filepath.Join(m.backups(), "monday")
	m.must("operator", "backup", "save", backup)
	m.create("late", "local-csi")
	m.run(counter("late"))
	m.acknowledged(m.counting("late"), 10)
	state := m.savedState("later.snap")
	m.lost()
	m.bringBack(backup, state)
	m.lines(m.counting("a"), written)
	m.waits("late", "late")
	for _, id := range []string{"a", "late"} {
		m.stopJob("count-" + id)
		m.remove(id)
	}
}

func events(s *api.TaskState) []*api.TaskEvent {
	if s == nil { // nothing was begun yet
		return nil
	}
	return s.Events
}

// waits fails the test unless the task of a counting job waits for its volume, and never starts.
func (m *machine) waits(volume, says string) {
	m.t.Helper()
	m.eventually("the task to wait for volume "+volume, func() bool {
		all, _, err := m.api.Jobs().Allocations(m.t.Context(), "count-"+volume, true, nil)
		must(m.t, err)
		for _, a := range all {
			for _, e := range events(a.TaskStates["write"]) {
				if e.Type == "Storage Waiting" && strings.Contains(e.DisplayMessage+e.Message, says) {
					return true
				}
			}
		}
		return false
	})
	if m.runs("count-" + volume) {
		m.t.Errorf("a task runs on volume %s, which is nowhere", volume)
	}
}

// TestABackupNamesWhatItLacks: given a volume of another plugin, a snapshot that a person has made, and one that an
// interrupted backup has left, when the machine is backed up, then the first is named as missing, the second is in the
// backup, and the third is gone; a name below the data_dir is refused, and nothing is left of that.
func TestABackupNamesWhatItLacks(t *testing.T) {
	m := newMachine(t, true)
	must(t, os.Mkdir(m.backups(), 0o700))
	p := m.localPlugin("own", "raw_exec")
	m.create("elsewhere", "own")
	m.create("a", "local-csi")
	m.must("volume", "snapshot", "create", "a", "keep")
	m.must("volume", "snapshot", "create", "a", "berth-backup-left")
	below := []string{"operator", "backup", "save", filepath.Join(m.data, "monday")}
	m.cliRefuses(below, "lies beneath", "another disk")
	backup := filepath.Join(m.backups(), "monday")
	out := m.must("operator", "backup", "save", backup)
	m.says(out, "Not in the backup: volume default/elsewhere: plugin own keeps it", "directories of allocations")
	m.cliRefuses([]string{"operator", "backup", "save", backup}, "there already")
	m.cliRefuses([]string{"operator", "backup", "restore", "-data-dir", m.data, backup}, "uses it")
	out = m.must("operator", "backup", "inspect", "-json", backup)
	if n := strings.Count(out, "/volumes/snapshots/"); n != 2 { // its record and its image
		t.Errorf("of one snapshot %d files are in the backup:\n%s", n, out)
	}
	list, _, err := m.api.Volumes().ListSnapshots(t.Context(), "local-csi", nil, nil)
	must(t, err)
	if len(list.Snapshots) != 1 {
		t.Errorf("%d snapshots are left of the one that a person has made", len(list.Snapshots))
	}
	image := one(t, filepath.Join(backup, "data/volumes/volumes/*/image"))
	must(t, os.Truncate(image, 4096))
	if out, code := m.cli("operator", "backup", "inspect", backup); code != 2 || !strings.Contains(out, image) {
		t.Errorf("of a backup whose image is cut off it says, with code %d:\n%s", code, out)
	}
	for _, s := range list.Snapshots {
		m.must("volume", "snapshot", "delete", "local-csi", s.ID)
	}
	p.atRest("elsewhere")
	m.remove("elsewhere")
	m.remove("a")
}
