package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client"
	"berth/internal/client/fingerprint"
	"berth/internal/client/localstate"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
	"berth/internal/port/kv"
)

func TestWhenTheServersAreSilentEverythingGoesOnAndNothingIsUndone(t *testing.T) {
	r := newRig(t)
	first := r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	eventually(t, "the node is armed", first.Armed)
	r.servers.change(func() { r.servers.down = true })
	eventually(t, "the node is not armed any more", func() bool { return !first.Armed() })
	first.stop()

	second := r.start()
	eventually(t, "the task is found without the servers", func() bool {
		return slices.Contains(r.mock.Log(), "recover web.1")
	})
	time.Sleep(300 * time.Millisecond)
	if second.Armed() {
		t.Error("armed without a word of the servers")
	}
	if got := r.mock.Alive(); len(got) != 1 {
		t.Errorf("alive: %v", got)
	}
	r.mock.Exit("web", driver.ExitResult{ExitCode: 1}) // a restart needs no servers
	eventually(t, "the task is restarted", func() bool { return slices.Contains(r.mock.Alive(), "web.2") })

	r.servers.change(func() { r.servers.down = false })
	eventually(t, "the node is armed again", second.Armed)
	eventually(t, "the restart is reported", func() bool {
		a := r.servers.report(id)
		return a != nil && a.TaskStates["web"].Restarts == 1
	})
}

func TestAServerThatLagsBehindIsNotBelieved(t *testing.T) {
	r := newRig(t)
	first := r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	first.stop()
	r.servers.change(func() {
		r.servers.index = 3 // a server of the same leadership that is not there yet: the alloc does not exist on it
		r.servers.behind = true
		delete(r.servers.allocs, id)
	})

	second := r.start()
	eventually(t, "the node is registered", func() bool { return r.servers.times() > 1 })
	time.Sleep(300 * time.Millisecond)
	if second.Armed() || len(r.mock.Alive()) != 1 {
		t.Errorf("armed %v, alive %v", second.Armed(), r.mock.Alive())
	}
	r.servers.change(func() { r.servers.index, r.servers.behind = 100, false })
	eventually(t, "the newer state is acted on", func() bool { return len(r.mock.Alive()) == 0 })
}

func TestAChangedFingerprintIsPushedAtOnce(t *testing.T) {
	r := newRig(t)
	volume, missing := t.TempDir(), filepath.Join(t.TempDir(), "nowhere")
	r.tune = func(c *client.Config) {
		c.DriverPeriod = 20 * time.Millisecond
		c.HostVolumes = []fingerprint.HostVolume{{Name: "there", Path: volume}, {Name: "missing", Path: missing}}
		c.Meta = map[string]string{"rack": "r1"}
	}
	c := r.start()
	node := func() *nodeView {
		r.servers.mu.Lock()
		defer r.servers.mu.Unlock()
		if r.servers.node == nil {
			return nil
		}
		return &nodeView{r.servers.node.Drivers["mock_driver"].Healthy, r.servers.node.Attributes["driver.mock_driver"],
			r.servers.registered}
	}
	eventually(t, "the node is registered", func() bool { return node() != nil })
	r.servers.mu.Lock()
	n := r.servers.node
	r.servers.mu.Unlock()
	if n.ID != c.ID() || n.Name != "n1" || n.Resources.CPUShares <= 0 || n.Resources.MemoryMB <= 0 ||
		n.Resources.DiskMB <= 0 || n.Resources.IP != "127.0.0.1" {
		t.Errorf("the node: %+v", n)
	}
	for _, a := range []string{"nomad.version", "unique.hostname", "kernel.name", "os.name", "cpu.numcores",
		"driver.mock_driver"} {
		if n.Attributes[a] == "" {
			t.Errorf("no attribute %s", a)
		}
	}
	if v := n.HostVolumes["there"]; v == nil || v.Unhealthy != "" {
		t.Errorf("a good host volume: %+v", v)
	}
	if v := n.HostVolumes["missing"]; v == nil || !strings.Contains(v.Unhealthy, "no such file") {
		t.Errorf("a missing host volume: %+v", v)
	}
	r.mock.SetHealth(driver.Fingerprint{Health: driver.Unhealthy, Description: "broken"})
	eventually(t, "the servers hear of it", func() bool { return !node().healthy })
	if node().attr != "1" && node().attr != "" {
		t.Errorf("attribute %q", node().attr)
	}
	before := node().times
	time.Sleep(200 * time.Millisecond)
	if node().times != before {
		t.Error("registered again though nothing changed")
	}
}

type nodeView struct {
	healthy bool
	attr    string
	times   int
}

func TestADevelopmentAgentStopsAllTasksAndLeavesNothing(t *testing.T) {
	r := realRig(t)
	c := r.start()
	stubborn := shell("stubborn", "exec", `trap "" INT; while :; do sleep 0.1; done`)
	stubborn.KillTimeout = 300 * time.Millisecond
	id := r.servers.place(service(shell("sh", "raw_exec", `exec sleep 3600`), stubborn))
	eventually(t, "it runs", func() bool {
		a := r.servers.report(id)
		return a != nil && a.TaskStates["sh"].State == alloc.TaskRunning &&
			a.TaskStates["stubborn"].State == alloc.TaskRunning
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	if err := c.Shutdown(ctx, true); err != nil {
		t.Fatal(err)
	}
	if running(id) {
		t.Error("a process lives")
	}
	if got := r.servers.status(id); got != alloc.ClientComplete {
		t.Errorf("the servers received %q", got)
	}
	c.stop()
	nothingMounted(t, r.dir)
	if err := os.RemoveAll(r.dir); err != nil {
		t.Errorf("the data directory can't be removed: %v", err)
	}
}

// TestAReplacementThatArrivesWhileTheAgentStopsIsNotLeftBehind: given a task that takes its time to end, when the
// servers place another alloc during the stop, then the stop ends all the same and no process of either is left.
func TestAReplacementThatArrivesWhileTheAgentStopsIsNotLeftBehind(t *testing.T) {
	r := realRig(t)
	c := r.start()
	slow := shell("slow", "raw_exec", `trap "" INT; while :; do sleep 0.1; done`)
	slow.KillTimeout = time.Second
	first := r.servers.place(service(slow))
	eventually(t, "it runs", func() bool { return r.servers.status(first) == alloc.ClientRunning })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- c.Shutdown(ctx, true) }()
	eventually(t, "the first is being killed", func() bool {
		return slices.Contains(r.servers.events(first, "slow"), alloc.EventKilling)
	})

	second := r.servers.place(service(shell("late", "raw_exec", `exec sleep 3600`)))

	if err := <-stopped; err != nil {
		t.Fatalf("the stop failed: %v", err)
	}
	c.stop()
	for _, id := range []ids.Alloc{first, second} {
		if running(id) {
			t.Errorf("a process of allocation %s lives", id)
		}
	}
	nothingMounted(t, r.dir)
}

func TestAnAllocThatIsChangedInPlaceRendersAnew(t *testing.T) {
	r := newRig(t)
	c := r.start()
	tk := task("web", nil)
	tk.Templates = []*job.Template{{
		EmbeddedTmpl: `{{ env "NOMAD_META_color" }}`,
		DestPath:     "local/f",
		ChangeMode:   "signal",
		ChangeSignal: "SIGHUP",
	}}
	j := service(tk)
	j.Meta = map[string]string{"color": "red"}
	id := r.servers.place(j)
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	file := filepath.Join(c.AllocDir(), string(id), "web/local/f")
	if data, err := os.ReadFile(file); err != nil || string(data) != "red" {
		t.Fatalf("rendered %q %v", data, err)
	}
	r.servers.change(func() {
		newer, b := *j, r.servers.allocs[id]
		newer.Meta = map[string]string{"color": "blue"}
		a := *b.Alloc
		a.AllocModifyIndex = r.servers.index
		r.servers.allocs[id] = alloc.Bundle{Alloc: &a, Job: &newer}
	})
	eventually(t, "the task hears of it", func() bool { return slices.Contains(r.mock.Log(), "signal web.1 SIGHUP") })
	if data, err := os.ReadFile(file); err != nil || string(data) != "blue" {
		t.Errorf("rendered %q %v", data, err)
	}
	if got := r.mock.Alive(); !slices.Equal(got, []string{"web.1"}) {
		t.Errorf("alive: %v", got)
	}
}

func TestTheDataDirectoryBelongsToOneAgentAndADamagedStoreIsRefusedLoudly(t *testing.T) {
	r := newRig(t)
	first := r.start()
	eventually(t, "it is registered", func() bool { return r.servers.times() > 0 })
	_, err := client.New(t.Context(), client.Config{DataDir: r.dir, Servers: r.calls})
	if !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), "another data_dir") {
		t.Errorf("a second agent: %v", err)
	}
	first.stop()
	db := filepath.Join(r.dir, "client/client.db")
	if err := os.WriteFile(db, []byte(strings.Repeat("garbage ", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = client.New(t.Context(), client.Config{DataDir: r.dir, Servers: r.calls})
	if !fault.Has(err, fault.Internal) || !strings.Contains(err.Error(), "may be damaged") {
		t.Errorf("a damaged store: %v", err)
	}
}

func TestTerminalAllocsAreCollectedOnRequest(t *testing.T) {
	r := newRig(t)
	c := r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	dir := filepath.Join(c.AllocDir(), string(id))
	if err := c.Collect(id); !fault.Has(err, fault.Conflict) {
		t.Errorf("a running alloc: %v", err)
	}
	r.servers.stop(id)
	eventually(t, "it is complete", func() bool { return r.servers.status(id) == alloc.ClientComplete })
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the files of an ended alloc can't be read: %v", err)
	}
	eventually(t, "it is collected", func() bool { return c.Collect(id) != nil || !exists(dir) })
	if exists(dir) || c.Known(id) {
		t.Errorf("left behind: directory %v, known %v", exists(dir), c.Known(id))
	}
	if err := c.Collect(ids.Alloc("nobody")); !fault.Has(err, fault.NotFound) {
		t.Errorf("an unknown alloc: %v", err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestAnAllocWithADamagedRecordIsNeitherStartedNorTakenForGone(t *testing.T) {
	r := newRig(t)
	first := r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	first.stop()
	db, err := kv.Open(filepath.Join(r.dir, "client/client.db"), localstate.Codec)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *kv.Tx) error { return tx.Put("client-allocs", string(id), map[string]int{"Nonsense": 1}) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}

	second := r.start()
	other := r.servers.place(service(task("other", nil)))
	eventually(t, "other allocs run", func() bool { return r.servers.status(other) == alloc.ClientRunning })
	if got := count(r.mock.Log(), "start web.1"); got != 1 || !slices.Contains(r.mock.Alive(), "web.1") {
		t.Errorf("the task was touched: %v", r.mock.Log())
	}
	if gone, why := second.ProcessesGone(id); gone || !strings.Contains(why, "damaged") {
		t.Errorf("its processes: gone %v, %q", gone, why)
	}
	if !second.Known(id) {
		t.Error("it is not known any more: its volumes would be released")
	}
	if o := second.Orphans(); len(o) != 0 {
		t.Errorf("what the servers know is shown as an orphan: %+v", o)
	}
	if err := second.EndOrphan(t.Context(), id); !fault.Has(err, fault.NotFound) {
		t.Errorf("a person ends it beside the servers: %v", err)
	}
}
