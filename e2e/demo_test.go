package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/conformance/csi/proxy"
	"berth/jobspec"
)

// TestDemo runs what a newcomer runs.
func TestDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../scripts/demo.sh")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it takes away what it has made
	cmd.WaitDelay = 30 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDatabaseOnAPlugin is the demo's story with a plugin that somebody runs as a job, under both drivers, judged by
// the oracle.
func TestDatabaseOnAPlugin(t *testing.T) {
	for _, driver := range []string{"raw_exec", "exec"} {
		t.Run(driver, func(t *testing.T) {
			m := newMachine(t, false)
			p := m.localPlugin("own", driver)
			m.createFromFile("own", nil)
			m.runRedis("redis", "redis-data")
			db := m.redis("redis")
			db.write(1000)

			m.kill()
			p.mark(proxy.CallerCrashed)
			db.do("set", "while-the-agent-was-dead", "x")
			m.start()
			m.awaitPlugin("own")
			if again := m.redis("redis"); again != db {
				t.Errorf("the database was %+v and is %+v", db, again)
			}

			m.stopJob("redis")
			m.runRedis("redis", "redis-data")
			db = m.redis("redis")
			db.expect(1001)

			s, _, err := m.api.Volumes().CreateSnapshot(t.Context(),
				&api.CSISnapshot{SourceVolumeID: "redis-data", Name: "before"}, nil)
			must(t, err)
			snapshot := s.Snapshots[0].ID
			db.do("set", "after-the-snapshot", "x")
			m.createFromFile("own", func(v *api.CSIVolume) {
				v.ID = "redis-copy"
				v.Name = "redis-copy"
				v.SnapshotID = snapshot
			})
			m.runRedis("redis-copy", "redis-copy")
			m.redis("redis-copy").expect(1001) // without the key that came later
			db.expect(1002)

			m.tellStop("redis")
			m.tellStop("redis-copy")
			m.remove("redis-copy")
			must(t, m.api.Volumes().DeleteSnapshot(t.Context(), "own", snapshot, nil, nil))
			m.remove("redis-data")
			p.atRest()
			if files := find(t, filepath.Join(m.rig, "images-own"), "image"); len(files) > 0 {
				t.Errorf("the provider still has %v", files)
			}
		})
	}
}

// find lists files by name beneath a directory.
func find(t *testing.T, dir, name string) (out []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			out = append(out, path)
		}
		return err
	}))
	return out
}

// createFromFile makes the example's volume with a plugin of choice.
func (m *machine) createFromFile(plugin string, change func(*api.CSIVolume)) {
	m.t.Helper()
	src, err := os.ReadFile("../examples/redis-data.volume.hcl")
	must(m.t, err)
	v, err := jobspec.ParseVolume("redis-data.volume.hcl", src)
	must(m.t, err)
	v.CSI.PluginID = plugin
	if change != nil {
		change(v.CSI)
	}
	_, _, err = m.api.Volumes().Create(m.t.Context(), v.CSI, nil)
	must(m.t, err)
}

// runRedis runs the example's job.
func (m *machine) runRedis(name, volume string) {
	m.t.Helper()
	src, err := os.ReadFile("../examples/redis.nomad.hcl")
	must(m.t, err)
	job, err := jobspec.Parse(
		jobspec.ParseConfig{
			Path:   "redis.nomad.hcl",
			Source: src,
			Vars:   map[string]string{"name": name, "volume": volume},
		})
	must(m.t, err)
	_, _, err = m.api.Jobs().Register(m.t.Context(), &api.JobRegisterRequest{Job: job}, nil)
	must(m.t, err)
}

// database is a running Redis; its process and its own id of this run tell whether it is the same.
type database struct {
	m         *machine
	port, pid int
	run       string
}

func (m *machine) redis(job string) database {
	m.t.Helper()
	a := m.running(job, 1)[0]
	full, _, err := m.api.Allocations().Get(m.t.Context(), a.ID, nil)
	must(m.t, err)
	db := database{m: m, port: full.AllocatedResources.Shared.Ports[0].Value, pid: m.pid(a.ID, "redis", "redis-server")}
	m.eventually("redis to answer", func() bool {
		out, err := exec.Command("redis-cli", "-p", strconv.Itoa(db.port), "ping").Output()
		return err == nil && strings.TrimSpace(string(out)) == "PONG"
	})
	for line := range strings.Lines(db.do("info", "server")) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			db.run = strings.TrimSpace(id)
		}
	}
	return db
}

func (d database) do(args ...string) string {
	d.m.t.Helper()
	out, err := exec.Command("redis-cli", append([]string{"-p", strconv.Itoa(d.port)}, args...)...).CombinedOutput()
	if err != nil {
		d.m.t.Fatalf("redis-cli %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (d database) write(n int) {
	d.m.t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "SET key:%d value-%d\n", i, i)
	}
	cmd := exec.Command("redis-cli", "-p", strconv.Itoa(d.port))
	cmd.Stdin = strings.NewReader(b.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		d.m.t.Fatalf("write: %v\n%s", err, out)
	}
	d.expect(n)
}

// expect checks the number of keys and what some hold.
func (d database) expect(n int) {
	d.m.t.Helper()
	if got := strings.TrimSpace(d.do("dbsize")); got != strconv.Itoa(n) {
		d.m.t.Errorf("the database has %s keys, want %d", got, n)
	}
	for _, i := range []int{0, 500, 999} {
		if got := strings.TrimSpace(d.do("get", fmt.Sprintf("key:%d", i))); got != fmt.Sprintf("value-%d", i) {
			d.m.t.Errorf("key:%d is %q", i, got)
		}
	}
}
