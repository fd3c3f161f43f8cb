package shim_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
	"berth/internal/testkit/dockerd"
)

// BenchmarkBareContainer is what the daemon alone takes for as many.
func BenchmarkBareContainer(b *testing.B) {
	daemon := dockerd.New(b)
	const n = 200
	for b.Loop() {
		g, gctx := lifecycle.NewGroup(b.Context())
		for range n {
			g.Go("container", func() error {
				id, err := daemon.Create(gctx, ids.New(), &dockerapi.Create{
					Image: dockerd.Image,
					Cmd:   []string{"sleep", "1000"},
				})
				if err != nil {
					return err
				}
				if err := daemon.Client.Start(gctx, id); err != nil {
					return err
				}
				return daemon.Remove(gctx, id)
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*n), "ms/task")
}

// BenchmarkContainer starts and stops tasks in containers, one after the other, and many at once.
func BenchmarkContainer(b *testing.B) {
	for _, n := range []int{1, 200} {
		b.Run(fmt.Sprintf("%d at once", n), func(b *testing.B) {
			p := newDocked(b, dockerd.New(b), fmt.Sprintf("docker-bench-%d-%d.slice", os.Getpid(), n))
			d := p.agent()
			p.says(driver.Healthy)
			for b.Loop() {
				g, gctx := lifecycle.NewGroup(b.Context())
				for i := range n {
					dir := filepath.Join(p.dir, fmt.Sprint("alloc", i))
					cfg := drivertest.Config(b, dir, ids.Alloc(ids.New()), "web", "exec sleep 1000")
					inBusybox(cfg)
					g.Go("task", func() error {
						task, err := d.Start(gctx, cfg)
						if err != nil {
							return err
						}
						return task.Stop(gctx, "", 0)
					})
				}
				if err := g.Wait(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*n), "ms/task")
		})
	}
}

// BenchmarkContainersBesideDocker starts tasks in containers, many at once, and as many containers by Docker's own
// command, one after the other, of the same daemon, and says how much longer that takes. Both have their log read or
// kept, and are there when the time is over; their removal is not measured.
func BenchmarkContainersBesideDocker(b *testing.B) {
	daemon := dockerd.New(b)
	p := newDocked(b, daemon, fmt.Sprintf("docker-beside-%d.slice", os.Getpid()))
	d := p.agent()
	p.says(driver.Healthy)
	const n = 200
	var ours, theirs time.Duration
	for b.Loop() {
		configs := make([]*driver.TaskConfig, n)
		for i := range configs {
			dir := filepath.Join(p.dir, fmt.Sprint("alloc", i))
			configs[i] = drivertest.Config(b, dir, ids.Alloc(ids.New()), "web", "exec sleep 1000")
			inBusybox(configs[i])
		}
		tasks := make([]driver.Task, n)
		ours += together(b, n, func(i int) (err error) {
			tasks[i], err = d.Start(b.Context(), configs[i])
			return err
		})
		together(b, n, func(i int) error { return tasks[i].Stop(b.Context(), "", 0) })
		begun := time.Now()
		for i := range n {
			cmd := exec.Command("docker", "--host", "unix://"+daemon.Socket(), "run", "--detach", "--network", "none",
				"--name", fmt.Sprint("beside-", i), dockerd.Image, "sleep", "1000")
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
		theirs += time.Since(begun)
		together(b, n, func(i int) error { return daemon.Remove(b.Context(), fmt.Sprint("beside-", i)) })
	}
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "x-docker")
}

// together does something n times at once, and says how long it took.
func together(b *testing.B, n int, do func(i int) error) time.Duration {
	b.Helper()
	begun := time.Now()
	g, _ := lifecycle.NewGroup(b.Context())
	for i := range n {
		g.Go("one", func() error { return do(i) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun)
}
