package storage

import (
	"fmt"
	"testing"
	"time"

	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/job"
	"berth/internal/model/volume"
)

// many is a cluster of one node with so many volumes.
func many(b *testing.B, count int, fake csitest.Fake) *cluster {
	c, _, p := bare(b, fake)
	atOnce(16, count, func(i int) {
		if _, err := c.create(fmt.Sprintf("db[%d]", i), specOf(p, volume.SingleNodeWriter)); err != nil {
			b.Error(err)
		}
	})
	return c
}

// runMany registers a job of one alloc for each of the volumes.
func (c *cluster) runMany(count int) {
	c.runJob("many", "db", volume.SingleNodeWriter, func(j *job.Job) {
		g := j.TaskGroups[0]
		g.Count = count
		g.Volumes["data"].PerAlloc = true
	})
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
	c := many(b, count, csitest.Fake{Slow: slow, AtOnce: atOnce})
	c.runMany(count)
	c.until(runs("many", count))
	ideal := count / atOnce * time.Duration(len(slow)) * takes
	for b.Loop() {
		begin := time.Now()
		c.stopJob("many")
		c.until(free)
		b.ReportMetric(float64(time.Since(begin))/float64(ideal), "x-ideal")
	}
}
