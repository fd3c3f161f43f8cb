package shim_test

import (
	"fmt"
	"os"
	"path/filepath"
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

// BenchmarkDrivers measures how long an alloc's first task takes until it runs, and its stop until nothing of it is
// left, one after the other, by driver.
func BenchmarkDrivers(b *testing.B) {
	for _, of := range []struct {
		name string
		make func(b *testing.B) driver.Driver
	}{
		{"raw_exec", func(b *testing.B) driver.Driver {
			return rawexec.New(rawexec.Config{Enabled: true}, newLauncher(b))
		}},
		{"exec", func(b *testing.B) driver.Driver { return exec.New(exec.Config{}, newLauncher(b)) }},
		{"docker", func(b *testing.B) driver.Driver {
			p := newDocked(b, dockerd.New(b), fmt.Sprintf("docker-drivers-%d.slice", os.Getpid()))
			d := p.agent()
			p.says(driver.Healthy)
			return d
		}},
		{"plugin", func(b *testing.B) driver.Driver {
			p := newPlugged(b, fmt.Sprintf("plugin-drivers-%d.slice", os.Getpid()))
			d := p.agent()
			p.healthy()
			return d
		}},
	} {
		for _, what := range []string{"start", "stop"} {
			b.Run(of.name+"/"+what, func(b *testing.B) {
				d, dir := of.make(b), tempDir(b)
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

// BenchmarkPluginTasks measures what a task of a driver plugin costs beyond the task, in proportional set size, with
// the plugin's share, and how long the next run of the agent takes until it has found all of them again.
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
		sum := pssOf(b, p.recorded().PID)
		for _, kib := range pss(b) {
			sum += kib
		}
		b.ReportMetric(float64(sum)/1024/n, "MiB/task")
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
