package shim_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/rawexec"
)

func BenchmarkStart(b *testing.B) {
	for name, makeDriver := range map[string]func(driver.Launcher) driver.Driver{
		"raw_exec": func(l driver.Launcher) driver.Driver { return rawexec.New(rawexec.Config{Enabled: true}, l) },
		"exec":     func(l driver.Launcher) driver.Driver { return exec.New(exec.Config{}, l) },
	} {
		b.Run(name, func(b *testing.B) { benchmarkStart(b, makeDriver) })
	}
}

// benchmarkStart measures an alloc's first start, with its shim, and the start of a second task in the same shim.
func benchmarkStart(b *testing.B, makeDriver func(driver.Launcher) driver.Driver) {
	d := makeDriver(newLauncher(b))
	dir := tempDir(b)
	var first, second, stop []time.Duration
	for b.Loop() {
		alloc := ids.Alloc(ids.New())
		var tasks []driver.Task
		for _, name := range []string{"web", "db"} {
			cfg := drivertest.Config(b, dir, alloc, name, "exec sleep 1000")
			begin := time.Now()
			task, err := d.Start(b.Context(), cfg)
			took := time.Since(begin)
			if err != nil {
				b.Fatal(err)
			}
			tasks = append(tasks, task)
			if name == "web" {
				first = append(first, took)
			} else {
				second = append(second, took)
			}
		}
		for _, task := range tasks {
			begin := time.Now()
			if err := task.Stop(b.Context(), "", 0); err != nil {
				b.Fatal(err)
			}
			stop = append(stop, time.Since(begin))
		}
	}
	report := func(what string, all []time.Duration) {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, what+"-p50-ms")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, what+"-p99-ms")
	}
	report("first", first)
	report("second", second)
	report("stop", stop)
}

// BenchmarkMemory measures what an alloc with one isolated task costs beyond the task, in proportional set size.
func BenchmarkMemory(b *testing.B) {
	const allocs = 200
	for b.Loop() {
		l := newLauncher(b)
		d := exec.New(exec.Config{}, l)
		dir := tempDir(b)
		begin := time.Now()
		var tasks []driver.Task
		for i := range allocs {
			task, err := d.Start(b.Context(),
				drivertest.Config(b, fmt.Sprintf("%s/%d", dir, i), ids.Alloc(ids.New()), "web", "exec sleep 1000"))
			if err != nil {
				b.Fatal(err)
			}
			tasks = append(tasks, task)
		}
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "start-all-ms")
		for what, kib := range pss(b) {
			b.ReportMetric(float64(kib)/1024/allocs, what+"-MiB/alloc")
		}
		for _, task := range tasks {
			if err := task.Stop(b.Context(), "", 0); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// pss sums the proportional set size, in KiB, of our helpers by name.
func pss(b *testing.B) map[string]int {
	b.Helper()
	sum := map[string]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		name, err := os.ReadFile("/proc/" + e.Name() + "/comm")
		if err != nil || !strings.HasPrefix(string(name), "berth-") {
			continue
		}
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // it is no process
		}
		sum[strings.TrimSpace(string(name))] += pssOf(b, pid)
	}
	return sum
}

// pssOf is the proportional set size of a process, in KiB; 0: it has ended.
func pssOf(b *testing.B, pid int) int {
	b.Helper()
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(rollup)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				b.Fatal(err)
			}
			return kib
		}
	}
	return 0
}
