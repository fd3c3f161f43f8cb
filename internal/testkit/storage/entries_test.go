package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/volume"
)

// TestAStartAndItsReleaseTakeFewEntries: what a start and a stop write to the log is counted by name.
func TestAStartAndItsReleaseTakeFewEntries(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name           string
		start, release uint64
		volume         string
	}{
		{name: "no volume", start: 4, release: 3},
		{name: "volume", start: 6, release: 4, volume: "db"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.delay = time.Hour // what nobody waits for is held back for longer than any test lasts
			p := c.startPlugin(csitest.Fake{})
			c.member("one", p)
			c.awaitPlugin(p.ID)
			c.mustCreate("db", p, volume.SingleNodeWriter)
			c.startAndRelease(20, test.volume, test.start, test.release)
			c.atRest(p)
		})
	}
}

// TestReachingTheServersAgainWritesNothing: given a node with a mounted volume, when its connection breaks and the
// state goes on, many times over, then not one report of its volumes is written to the log; a volume that comes to it
// after that is written.
func TestReachingTheServersAgainWritesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.startPlugin(csitest.Fake{})
	m := c.member("one", p)
	c.awaitPlugin(p.ID)
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.mustCreate("later", p, volume.SingleNodeWriter)
	c.runJob("db", "db", volume.SingleNodeWriter)
	c.running("db")
	before := c.quiet()
	for i := range 4 {
		m.calls.cut()
		c.mustCreate(fmt.Sprintf("other-%d", i), p, volume.SingleNodeWriter) // the node's call has arrived
	}
	wrote := between(before, c.quiet())
	if n := wrote["inventory-apply"] + wrote["node-report"]; n > 0 {
		t.Errorf("%d reports of volumes were written: %v", n, wrote)
	}
	before = c.quiet()
	c.runJob("later", "later", volume.SingleNodeWriter)
	c.running("later")
	if wrote := between(before, c.quiet()); wrote["inventory-apply"]+wrote["node-report"] == 0 {
		t.Errorf("a volume that is mounted was not reported: %v", wrote)
	}
	c.stopJob("db")
	c.stopJob("later")
	c.released()
	c.atRest(p)
}

// startAndRelease runs jobs one after another, on a volume if one is named, and counts what each writes at most.
func (c *cluster) startAndRelease(jobs int, vol string, start, release uint64) {
	c.t.Helper()
	for i := range jobs {
		id := fmt.Sprintf("web-%d", i)
		before := c.quiet()
		c.runJob(id, "db", volume.SingleNodeWriter, func(j *job.Job) {
			if vol == "" {
				j.TaskGroups[0].Volumes, j.TaskGroups[0].Tasks[0].VolumeMounts = nil, nil
			}
		})
		c.running(id)
		started := c.quiet()
		c.stopJob(id)
		c.released()
		eventually(c.t, "the allocation has ended", func() bool { return c.ended(id) })
		released := c.quiet()
		check(c.t, i, "start", between(before, started), start)
		check(c.t, i, "release", between(started, released), release)
	}
}

// TestAStartAndItsReleaseTakeFewEntriesHoweverSlowThePlugin: each call takes many times as long as what stands in the
// way is held back. What is under way and goes well is superseded before anybody needs it in the log.
func TestAStartAndItsReleaseTakeFewEntriesHoweverSlowThePlugin(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.delay, c.patience = time.Millisecond, time.Hour
	p := c.startPlugin(csitest.Fake{}, "(ControllerPublish * delay 100ms)", "(NodeStage * delay 100ms)",
		"(NodePublish * delay 100ms)", "(NodeUnpublish * delay 100ms)", "(NodeUnstage * delay 100ms)",
		"(ControllerUnpublish * delay 100ms)")
	c.member("one", p)
	c.awaitPlugin(p.ID)
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.startAndRelease(5, "db", 6, 4)
	c.atRest(p)
}

func (c *cluster) ended(id string) bool {
	for a := range c.s.Store().Snapshot().AllocsByJob(nil, ids.DefaultNamespace, ids.Job(id)) {
		if a.ClientStatus != alloc.ClientComplete {
			return false
		}
	}
	return true
}

// quiet waits until nothing is written for a while, and returns what was written until then.
func (c *cluster) quiet() map[string]uint64 {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		before := c.s.Commands()
		time.Sleep(200 * time.Millisecond)
		after := c.s.Commands()
		if maps.Equal(before, after) {
			return after
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("it is still written to: %v", between(before, after))
		}
	}
}

func between(before, after map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for name, n := range after {
		if n > before[name] {
			out[name] = n - before[name]
		}
	}
	return out
}

func check(t testing.TB, round int, what string, wrote map[string]uint64, most uint64) {
	t.Helper()
	var sum uint64
	var says []string
	for _, name := range slices.Sorted(maps.Keys(wrote)) {
		sum += wrote[name]
		says = append(says, fmt.Sprintf("%d %s", wrote[name], name))
	}
	if sum > most {
		t.Errorf("round %d: a %s took %d entries, want at most %d: %s", round, what, sum, most,
			strings.Join(says, ", "))
	}
}
