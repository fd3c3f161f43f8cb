package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// TestAJobBringsItsVolumes: given a job that says how to make a volume for each of its allocations, when it is run,
// then they are made, and only those that are not there; more allocations bring more volumes and disturb none that
// runs; the volumes stay when the job goes, and one that was deleted is made anew, empty, when the job is run again.
func TestAJobBringsItsVolumes(t *testing.T) {
	m := newMachine(t, true)
	file := filepath.Join(m.rig, "db.nomad.hcl")
	write := func(count int, create string) {
		t.Helper()
		w := writer{
			id:      "db",
			volume:  "data",
			count:   count,
			create:  "plugin_id = \"local-csi\"\n" + create,
			healthy: "1s",
		}
		must(t, os.WriteFile(file, []byte(w.hcl()), 0o644))
	}
	says := func(code int, words string, args ...string) {
		t.Helper()
		out, got := m.cli(append(args, file)...)
		if got != code || !strings.Contains(out, words) {
			t.Fatalf("berth %s: exit %d, want %d and %q:\n%s", strings.Join(args, " "), got, code, words, out)
		}
	}
	pids := func(count int) []int {
		t.Helper()
		out := make([]int, count)
		for _, a := range m.running("db", count) {
			var index int
			for index = range count {
				if strings.HasSuffix(a.Name, "["+string(rune('0'+index))+"]") {
					break
				}
			}
			out[index] = m.pid(a.ID, "write", "/bin/sh")
			m.lives(out[index], index)
		}
		return out
	}

	write(2, `capacity_min = "32MiB"`)
	says(1, "It would make 2 volumes: data[0], data[1]", "job", "plan")
	says(0, "", "job", "run")
	first := pids(2)
	v := m.volume("data[1]", "ready", func(v *api.CSIVolume) bool { return v.Phase == "ready" })
	if v.PluginID != "local-csi" || v.Capacity < 32<<20 || v.RequestedCapacityMin != 32<<20 {
		t.Errorf("the volume is %+v", v)
	}

	write(3, `capacity_min = "48MiB"`)
	says(1, "It would make 1 volume: data[2]", "job", "plan")
	says(0, "berth volume expand -size=50331648 'data[0]'", "job", "run")
	if now := pids(3); now[0] != first[0] || now[1] != first[1] {
		t.Errorf("tasks were replaced: %v, then %v", first, now)
	}

	m.mustCLI("job", "stop", "-purge", "db")
	m.remove("data[1]")
	says(0, "", "job", "run")
	now := pids(3)
	if got := strings.Count(m.seen(now[0], "/data/log"), "started"); got != 2 {
		t.Errorf("data[0] tells of %d starts", got)
	}
	if got := strings.Count(m.seen(now[1], "/data/log"), "started"); got != 1 {
		t.Errorf("data[1] was made anew, and tells of %d starts", got)
	}
	m.mustCLI("job", "stop", "-purge", "db")
	for _, id := range []string{"data[0]", "data[1]", "data[2]"} {
		m.remove(id)
	}
}

// TestAVolumeThatCannotBeMadeIsSaid: given a job whose volume is larger than the provider can make, when it is run,
// then it says why it waits; mended and run again it runs.
func TestAVolumeThatCannotBeMadeIsSaid(t *testing.T) {
	m := newMachine(t, true)
	w := writer{id: "db", volume: "data", create: "plugin_id = \"local-csi\"\ncapacity_min = \"900TiB\""}
	m.run(w.hcl())
	m.eventually("the reason", func() bool {
		out, _ := m.cli("job", "status", "db")
		return strings.Contains(out, `volume "data[0]" could not be made`) &&
			strings.Contains(out, "run the job again")
	})
	w.create = "plugin_id = \"local-csi\"\ncapacity_min = \"32MiB\""
	m.run(w.hcl())
	m.lives(m.pid(m.running("db", 1)[0].ID, "write", "/bin/sh"), 0)
	m.stopJob("db")
	m.remove("data[0]")
}
