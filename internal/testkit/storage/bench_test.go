package storage

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/job"
	"berth/internal/model/volume"
)

// many is a node that runs one alloc for each of many volumes, in one job. The calls that release them are slow.
func many(b *testing.B, count int, fake csitest.Fake) (*cluster, *member, *csitest.Plugin) {
	c := newCluster(b)
	fake.Mount = csitest.MountBind
	p := csitest.New(b, csitest.Options{World: c, Fake: fake, Unjudged: "it is measured; tests judge the same calls"})
	m := c.member("one", p)
	c.awaitPlugin(p.ID)
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range numbers {
				if _, err := c.create(fmt.Sprintf("db[%d]", i), specOf(p, volume.SingleNodeWriter)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range count {
		numbers <- i
	}
	close(numbers)
	wg.Wait()
	c.runJob("many", "db", volume.SingleNodeWriter, func(j *job.Job) {
		g := j.TaskGroups[0]
		g.Count = count
		g.Volumes["data"].PerAlloc = true
	})
	c.waits("all run", func() bool {
		running := 0
		for a := range c.s.Store().Snapshot().AllocsByJob(nil, "default", "many") {
			if a.ClientStatus == "running" {
				running++
			}
		}
		return running == count
	})
	return c, m, p
}

// waits waits for as long as it takes: what is measured ends by itself, or with the benchmark's own time.
func (c *cluster) waits(what string, is func() bool) {
	c.t.Helper()
	for !is() {
		select {
		case <-c.t.Context().Done():
			c.t.Fatalf("waited in vain: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// BenchmarkRelease is the release of 300 volumes by a plugin that takes 200 ms for a call and makes ten at once: from
// the stop of the job until nothing is claimed or attached. Three calls for each volume cannot take less than 18 s.
func BenchmarkRelease(b *testing.B) {
	const (
		count  = 300
		atOnce = 10
		takes  = 200 * time.Millisecond
	)
	slow := map[string]time.Duration{}
	for _, rpc := range []string{"NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"} {
		slow[rpc] = takes
	}
	c, _, _ := many(b, count, csitest.Fake{Slow: slow, AtOnce: atOnce})
	ideal := count / atOnce * time.Duration(len(slow)) * takes
	for b.Loop() {
		begin := time.Now()
		c.stopJob("many")
		c.waits("all is released", func() bool {
			s := c.s.Store().Snapshot()
			for range s.Claims(nil) {
				return false
			}
			for range s.Attachments(nil) {
				return false
			}
			return true
		})
		b.ReportMetric(float64(time.Since(begin))/float64(ideal), "x-ideal")
	}
}
