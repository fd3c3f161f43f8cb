package storage

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/dynamicplugins"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/server/state"
	"berth/internal/testkit/pluginjobs"
)

// bare is a cluster of one node whose plugin's calls nobody records.
func bare(b *testing.B, fake csitest.Fake) (*cluster, *member, *csitest.Plugin) {
	c := newCluster(b)
	fake.Mount = csitest.MountBind
	p, listen := csitest.Bare(b, "fake", fake)
	listen()
	m := c.member("one", p)
	c.awaitPlugin(p.ID)
	return c, m, p
}

// until waits for a condition of the state, and hears of each change that may bring it about.
func (c *cluster) until(is func(*state.Snap, *state.Watch) bool) {
	c.t.Helper()
	for {
		w := state.NewWatch()
		if is(c.s.Store().Snapshot(), w) {
			return
		}
		if err := w.Wait(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// runs is a condition: that so many allocations of a job run.
func runs(id string, want int) func(*state.Snap, *state.Watch) bool {
	return func(s *state.Snap, w *state.Watch) bool {
		n := 0
		for a := range s.AllocsByJob(w, ids.DefaultNamespace, ids.Job(id)) {
			if a.ClientStatus == "running" && !a.ServerTerminal() {
				n++
			}
		}
		return n == want
	}
}

// free is a condition: that nothing is claimed or attached.
func free(s *state.Snap, w *state.Watch) bool {
	for range s.Claims(w) {
		return false
	}
	for range s.Attachments(w) {
		return false
	}
	return true
}

// quantiles reports the least, the median, the 99th percentile and the most.
func quantiles(b *testing.B, prefix string, took []time.Duration) {
	slices.Sort(took)
	for name, q := range map[string]float64{"min-ms": 0, "p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1} {
		at := took[int(q*float64(len(took)-1))]
		b.ReportMetric(float64(at)/float64(time.Millisecond), prefix+name)
	}
}

// BenchmarkCreate makes volumes with a plugin that answers at once: one after another, each beside a call to the plugin
// alone, and then by 16 callers.
func BenchmarkCreate(b *testing.B) {
	const (
		one     = 200
		many    = 2000
		callers = 16
	)
	use := csi.VolumeCapability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}
	c, _, p := bare(b, csitest.Fake{})
	plugin := p.Connect()
	var took, alone []time.Duration
	var rates []float64
	for round := 0; b.Loop(); round++ {
		for i := range one {
			name := fmt.Sprintf("one-%d-%d", round, i)
			begin := time.Now()
			c.mustCreate(name, p, volume.SingleNodeWriter)
			took = append(took, time.Since(begin))
			begin = time.Now()
			if _, err := plugin.CreateVolume(b.Context(), csi.CreateVolumeRequest{
				Name:         name,
				Capacity:     csi.CapacityRange{Required: 1 << 20},
				Capabilities: []csi.VolumeCapability{use},
			}); err != nil {
				b.Fatal(err)
			}
			alone = append(alone, time.Since(begin))
		}
		begin := time.Now()
		atOnce(callers, many, func(i int) {
			if _, err := c.create(fmt.Sprintf("many-%d-%d", round, i), specOf(p, volume.SingleNodeWriter)); err != nil {
				b.Error(err)
			}
		})
		rates = append(rates, many/time.Since(begin).Seconds())
	}
	quantiles(b, "plugin-", alone)
	quantiles(b, "", took)
	beyond := make([]time.Duration, len(took))
	for i, t := range took {
		beyond[i] = t - alone[len(alone)/2]
	}
	quantiles(b, "beyond-", beyond)
	slices.Sort(rates)
	b.ReportMetric(rates[0], "min-a-second")
	b.ReportMetric(rates[len(rates)/2], "p50-a-second")
	b.ReportMetric(rates[len(rates)-1], "max-a-second")
}

// BenchmarkStartWithVolumes starts a task with volumes of a plugin that takes 100 ms for each call: what it takes
// beyond three of them, of which each waits for the one before.
func BenchmarkStartWithVolumes(b *testing.B) {
	const takes = 100 * time.Millisecond
	for _, count := range []int{1, 8} {
		b.Run(fmt.Sprintf("volumes=%d", count), func(b *testing.B) {
			slow := map[string]time.Duration{}
			for _, rpc := range []string{"ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"} {
				slow[rpc] = takes
			}
			c, _, p := bare(b, csitest.Fake{Slow: slow})
			for i := range count {
				c.mustCreate(fmt.Sprintf("v%d", i), p, volume.SingleNodeWriter)
			}
			var took []time.Duration
			for round := 0; b.Loop(); round++ {
				id := fmt.Sprintf("j%d", round)
				begin := time.Now()
				c.runJob(id, "v0", volume.SingleNodeWriter, func(j *job.Job) {
					g := j.TaskGroups[0]
					data := g.Volumes["data"]
					for i := 1; i < count; i++ {
						more := *data
						more.Name, more.Source = fmt.Sprintf("d%d", i), fmt.Sprintf("v%d", i)
						g.Volumes[more.Name] = &more
						g.Tasks[0].VolumeMounts = append(g.Tasks[0].VolumeMounts,
							&job.VolumeMount{Volume: more.Name, Destination: "/" + more.Name})
					}
				})
				c.until(runs(id, 1))
				took = append(took, time.Since(begin)-3*takes)
				c.stopJob(id)
				c.until(free)
			}
			quantiles(b, "", took)
		})
	}
}

// BenchmarkAttachStorm starts a job of 1,000 allocations with a volume each, by a plugin that takes 2 s to attach one
// and attaches 50 at once. It cannot take less than 40 s.
func BenchmarkAttachStorm(b *testing.B) {
	const (
		count  = 1000
		atOnce = 50
		takes  = 2 * time.Second
	)
	for b.Loop() {
		c := many(b, count, csitest.Fake{
			Slow:   map[string]time.Duration{"ControllerPublishVolume": takes},
			AtOnce: atOnce,
		})
		begin := time.Now()
		c.runMany(count)
		c.until(runs("many", count))
		b.ReportMetric(float64(time.Since(begin))/float64(count/atOnce*takes), "x-ideal")
		c.stopJob("many")
		c.until(free)
	}
}

// BenchmarkUsable is the time from the moment that a plugin listens, some time after its task was started, until the
// servers can place allocations with its volumes.
func BenchmarkUsable(b *testing.B) {
	const later = 700 * time.Millisecond
	c, m, _ := bare(b, csitest.Fake{})
	var took []time.Duration
	for round := 0; b.Loop(); round++ {
		id := ids.Plugin(fmt.Sprintf("late%d", round))
		base := csimanager.HostBase(m.dir, id)
		p, listen := csitest.Bare(b, string(id), csitest.Fake{})
		for _, role := range []plugin.Role{plugin.RoleController, plugin.RoleNode} {
			if err := m.client.Plugins().Register(dynamicplugins.Info{
				Plugin:   id,
				Role:     role,
				Alloc:    ids.Alloc(id),
				Socket:   p.Socket,
				HostBase: base,
				TaskBase: base,
				Scope:    plugin.ScopeCluster,
				Declared: time.Now(),
			}); err != nil {
				b.Fatal(err)
			}
		}
		pluginjobs.Place(b, c.s, c.s.Store().Snapshot, m.client.ID(),
			[]*plugin.Instance{{Plugin: id, Alloc: ids.Alloc(id)}})
		time.Sleep(later)
		begin := time.Now()
		listen()
		c.until(func(s *state.Snap, w *state.Watch) bool {
			r := s.Plugin(w, id)
			return r != nil && r.Negotiated && r.NodeNegotiated
		})
		took = append(took, time.Since(begin))
	}
	quantiles(b, "", took)
}

// atOnce does something so often, by so many callers.
func atOnce(callers, times int, do func(i int)) {
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range numbers {
				do(i)
			}
		})
	}
	for i := range times {
		numbers <- i
	}
	close(numbers)
	wg.Wait()
}
