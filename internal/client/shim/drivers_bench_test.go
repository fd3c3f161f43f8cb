package shim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/rawexec"
	"berth/internal/testkit/dockerd"
)

// measured are the drivers of which the same is measured. What serves a plugin is a process of its own, which plugin
// names; nil: there is none.
var measured = []struct {
	name string
	make func(b *testing.B) (d driver.Driver, plugin func() int)
}{
	{"raw_exec", func(b *testing.B) (driver.Driver, func() int) {
		return rawexec.New(rawexec.Config{Enabled: true}, newLauncher(b)), nil
	}},
	{"exec", func(b *testing.B) (driver.Driver, func() int) {
		return exec.New(exec.Config{}, newLauncher(b)), nil
	}},
	{"docker", func(b *testing.B) (driver.Driver, func() int) {
		p := newDocked(b, dockerd.New(b), fmt.Sprintf("docker-drivers-%d.slice", os.Getpid()))
		d := p.agent()
		p.says(driver.Healthy)
		return d, nil
	}},
	{"plugin", func(b *testing.B) (driver.Driver, func() int) {
		p := newPlugged(b, fmt.Sprintf("plugin-drivers-%d.slice", os.Getpid()))
		d := p.agent()
		p.healthy()
		return d, func() int { return p.recorded().PID }
	}},
}

// BenchmarkDriverMemory measures what holds a running alloc of one task, by driver, in proportional set size and beyond
// the task: its shim, what this process, in which the driver is, grows by, and the share of the plugin. The daemon of
// containers, and what that keeps for each, is not Berth's.
func BenchmarkDriverMemory(b *testing.B) {
	const n = 100
	for _, of := range measured {
		b.Run(of.name, func(b *testing.B) {
			for b.Loop() {
				d, plugin := of.make(b)
				dir := tempDir(b)
				weigh := func() int {
					debug.FreeOSMemory()
					sum := pssOf(b, os.Getpid())
					for _, kib := range pss(b) {
						sum += kib
					}
					return sum
				}
				before := weigh()
				tasks := make([]driver.Task, n)
				for i := range tasks {
					cfg := drivertest.Config(b, filepath.Join(dir, fmt.Sprint(i)), ids.Alloc(ids.New()), "web",
						"exec sleep 1000")
					if of.name == "docker" {
						inBusybox(cfg)
					}
					task, err := d.Start(b.Context(), cfg)
					if err != nil {
						b.Fatal(err)
					}
					tasks[i] = task
				}
				grown := weigh() - before
				if plugin != nil {
					grown += pssOf(b, plugin())
				}
				b.ReportMetric(float64(grown)/1024/n, "MiB/alloc")
				together(b, n, func(i int) error { return tasks[i].Stop(b.Context(), "", 0) })
			}
		})
	}
}

// BenchmarkDrivers measures how long an alloc's first task takes until it runs, and its stop until nothing of it is
// left, one after the other, by driver.
func BenchmarkDrivers(b *testing.B) {
	for _, of := range measured {
		for _, what := range []string{"start", "stop"} {
			b.Run(of.name+"/"+what, func(b *testing.B) {
				d, _ := of.make(b)
				dir := tempDir(b)
				var starts, stops []time.Duration
				for b.Loop() {
					cfg := drivertest.Config(b, dir, ids.Alloc(ids.New()), "web", "exec sleep 1000")
					if of.name == "docker" {
						inBusybox(cfg)
					}
					begun := time.Now()
					task, err := d.Start(b.Context(), cfg)
					if err != nil {
						b.Fatal(err)
					}
					starts = append(starts, time.Since(begun))
					begun = time.Now()
					if err := task.Stop(b.Context(), "", 0); err != nil {
						b.Fatal(err)
					}
					stops = append(stops, time.Since(begun))
				}
				all := starts
				if what == "stop" {
					all = stops
				}
				reportTimes(b, all)
			})
		}
	}
}

// BenchmarkPluginTasks measures how long the next run of the agent takes until it has found all tasks of a driver plugin
// again.
func BenchmarkPluginTasks(b *testing.B) {
	const n = 200
	var found []time.Duration
	for b.Loop() {
		p := newPlugged(b, fmt.Sprintf("plugin-tasks-%d.slice", os.Getpid()))
		d := p.agent()
		p.healthy()
		tasks := make([]driver.Task, n)
		for i := range tasks {
			dir := filepath.Join(p.dir, fmt.Sprint("alloc", i))
			cfg := drivertest.Config(b, dir, ids.Alloc(ids.New()), "web", "exec sleep 1000")
			task, err := d.Start(b.Context(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			tasks[i] = task
		}
		p.stop()
		begun := time.Now()
		d = p.agent()
		together(b, n, func(i int) (err error) {
			tasks[i], err = d.Recover(b.Context(), tasks[i].Handle())
			return err
		})
		found = append(found, time.Since(begun))
		together(b, n, func(i int) error { return tasks[i].Stop(b.Context(), "", 0) })
	}
	reportTimes(b, found)
}

func reportTimes(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	for name, d := range map[string]time.Duration{
		"min-ms": took[0],
		"p50-ms": took[len(took)/2],
		"max-ms": took[len(took)-1],
	} {
		b.ReportMetric(float64(d.Microseconds())/1000, name)
	}
}
