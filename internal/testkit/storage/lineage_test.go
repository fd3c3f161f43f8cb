package storage

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	modelnode "berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
	"berth/internal/server/fsm/collection"
	"berth/internal/wire"
)

// unattached is a plugin whose volumes need no attaching: nothing but the nodes' reports tells who has them.
var unattached = csitest.Fake{Controller: csi.Caps[csi.ControllerCap]{csi.CapCreateDelete, csi.CapListVolumes}}

// oneNode is a cluster of one node, whose plugin is ready and has made the volume "db".
func oneNode(t *testing.T) (*cluster, *csitest.Plugin, *member) {
	t.Helper()
	c := newCluster(t)
	p := c.startPlugin(unattached)
	m := c.member("one", p)
	c.awaitPlugin(p.ID)
	c.mustCreate("db", p, volume.SingleNodeWriter)
	return c, p, m
}

// copyOf copies the data directory of a server that does not run.
func (c *cluster) copyOf() string {
	c.t.Helper()
	to := filepath.Join(c.t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", c.cfg.DataDir, to).CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
	return to
}

// orphans are what the servers list of a node.
func (c *cluster) orphans(m *member) []modelnode.Orphan {
	n := c.s.Store().Snapshot().Node(nil, m.client.ID())
	if n == nil {
		return nil
	}
	return n.Orphans
}

// away stops the node's agent and the server; back starts both, on another data directory of the server if one is
// given.
func (c *cluster) away(m *member) {
	m.stop()
	c.end()
}

func (c *cluster) back(m *member, name, dir string) {
	c.t.Helper()
	if dir != "" {
		c.cfg.DataDir = dir
	}
	c.serve()
	m.start(name)
}

// recover says what a person says about servers that were put back, and waits until the recovery has ended.
func (c *cluster) recover(why string) {
	t := c.t
	t.Helper()
	if _, err := wire.RecoveryBegin.Call(t.Context(), c.conn, &wire.RecoveryWord{Reason: why}); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.RecoveryFinish.Call(t.Context(), c.conn, &wire.RecoveryWord{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "every node has reported", func() bool {
		return !c.s.Store().Snapshot().Recovery(nil).Ended.IsZero()
	})
}

// TestAnOlderCopyOfTheServersNeitherEndsNorDeletesWhatIsInUse restores the servers to a moment before a claim, and lets
// them advance beyond what the node has seen.
func TestAnOlderCopyOfTheServersNeitherEndsNorDeletesWhatIsInUse(t *testing.T) {
	t.Parallel()
	c, p, m := oneNode(t)
	c.mustCreate("other", p, volume.SingleNodeWriter)
	c.mustCreate("spare", p, volume.SingleNodeWriter)
	c.away(m)
	old := c.copyOf()
	c.back(m, "one", "")
	c.runJob("a", "db", volume.SingleNodeWriter)
	a := c.running("a")
	c.away(m)
	c.back(m, "one", old)

	eventually(t, "the servers hear of the orphan", func() bool { return len(c.orphans(m)) == 1 })
	o := c.orphans(m)[0]
	if o.Alloc != a.ID || o.Job != "a" || !slices.Equal(o.Volumes, []string{"db"}) {
		t.Errorf("the orphan is %+v", o)
	}
	err := c.delete("db", 0)
	if !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), ids.Short(a.ID)) {
		t.Fatalf("the delete of a volume in use: %v", err)
	}
	for _, id := range []string{"b", "c", "d"} { // the restored state goes far beyond what the node has seen
		c.runJob(id, "other", volume.SingleNodeWriter)
		c.running(id)
		c.stopJob(id)
	}
	if err := c.delete("db", 0); !fault.Has(err, fault.Busy) {
		t.Fatalf("the delete of a volume in use: %v", err)
	}
	if got := m.driver.Alive(); !slices.Contains(got, "t.1") || count(p, "DeleteVolume") != 0 {
		t.Fatalf("alive %v, %d volumes deleted", got, count(p, "DeleteVolume"))
	}

	err = c.delete("spare", 0)
	if !fault.Has(err, fault.NotReady) || !strings.Contains(err.Error(), "recovery begin") {
		t.Fatalf("the delete of another volume, of which the state may be as wrong: %v", err)
	}
	c.runJob("second", "db", volume.SingleNodeWriter) // in this state the volume is free
	waits := func(what, text string) {
		t.Helper()
		eventually(t, what, func() bool {
			for e := range c.s.Store().Snapshot().EvalsByJob(nil, ids.DefaultNamespace, "second") {
				if m := e.FailedTGAllocs["g"]; m != nil && strings.Contains(fmt.Sprintf("%+v", *m), text) {
					return true
				}
			}
			return false
		})
	}
	waits("the second writer waits for a person to decide", "operator recovery begin")
	c.recover("server/ was put back")
	if err := c.delete("db", 0); !fault.Has(err, fault.Busy) {
		t.Fatalf("the delete of a volume in use, after the recovery: %v", err)
	}
	waits("the second writer waits for the orphan", "orphans list")
	if n := count(p, "NodePublishVolume") + count(p, "NodePublish"); n != 4 ||
		!slices.Equal(m.driver.Alive(), []string{"t.1"}) {
		t.Fatalf("%d publications, alive %v", n, m.driver.Alive())
	}
	m.endOrphan(a.ID)
	eventually(t, "a person ends it", func() bool { return len(c.orphans(m)) == 0 })
	c.running("second")
	c.stopJob("second")
	if err := c.delete("db", 50*time.Second); err != nil {
		t.Fatal(err)
	}
	c.atRest(p)
}

// Given servers that were restored from a snapshot, when an older copy of their directory, from before that, is put
// back, then the node holds what a state placed that this one does not descend from, and keeps it; by a person's word
// that the state was put back the node goes on with it: what the state knows is the servers' again, in the same
// process, and what it does not know is an orphan, that can be adopted.
func TestAnOlderCopyPutBackOverARestoreIsFollowedByAPersonsWord(t *testing.T) {
	t.Parallel()
	c, p, m := oneNode(t)
	c.mustCreate("kept", p, volume.SingleNodeWriter)
	c.runJob("known", "kept", volume.SingleNodeWriter)
	known := c.running("known")
	c.away(m)
	old := c.copyOf()
	c.back(m, "one", "")
	c.runJob("a", "db", volume.SingleNodeWriter)
	a := c.running("a")
	if err := c.restore(c.save()); err != nil {
		t.Fatal(err)
	}
	c.recovered()
	restored := c.s.Store().Snapshot().Meta(nil).Incarnation
	eventually(t, "the node follows the restored state", func() bool {
		return m.client.Seen().Incarnation == restored && m.client.Armed()
	})
	alive := m.driver.Alive()
	c.away(m)
	c.back(m, "one", old)

	eventually(t, "the node keeps all that it holds", func() bool { return len(c.orphans(m)) == 2 })
	if e := c.s.Store().Snapshot().Evidence(nil, m.client.ID()); e == nil || e.Relation != lineage.Foreign {
		t.Fatalf("the evidence is %+v", e)
	}
	c.recover("server/ was put back")
	eventually(t, "the node goes on with the state", func() bool {
		now := c.s.Store().Snapshot()
		return m.client.Seen().Incarnation == now.Meta(nil).Incarnation && m.client.Armed() &&
			now.Node(nil, m.client.ID()).Unfollowed == "" && len(c.orphans(m)) == 1
	})
	eventually(t, "the reason why nobody decides about the orphan is the one that holds now", func() bool {
		o := c.orphans(m)[0]
		return o.Alloc == a.ID && strings.Contains(o.Reason, "nothing shows that they ever removed it")
	})
	if now := c.running("known"); now.ID != known.ID || !slices.Equal(m.driver.Alive(), alive) {
		t.Errorf("alive %v, were %v; job known runs in %s, it did in %s", m.driver.Alive(), alive, now.ID, known.ID)
	}
	if err := m.adopt(a.ID, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is no orphan any more", func() bool { return len(c.orphans(m)) == 0 })
	if now := c.running("a"); now.ID != a.ID || !slices.Equal(m.driver.Alive(), alive) {
		t.Errorf("alive %v, were %v; job a runs in %s, it did in %s", m.driver.Alive(), alive, now.ID, a.ID)
	}
	c.stopJob("a")
	c.stopJob("known")
	c.released()
	c.atRest(p)
}

// TestEmptiedServersNeitherEndNorDeleteWhatIsInUse: the volume is registered anew, under another name.
func TestEmptiedServersNeitherEndNorDeleteWhatIsInUse(t *testing.T) {
	t.Parallel()
	c, p, m := oneNode(t)
	v := c.s.Store().Snapshot().Volume(nil, volID("db"))
	c.runJob("a", "db", volume.SingleNodeWriter)
	a := c.running("a")
	c.away(m)
	c.back(m, "one", t.TempDir())

	eventually(t, "the servers hear of the orphan", func() bool { return len(c.orphans(m)) == 1 })
	m.placePlugin("plugin-one") // as its job is run again
	c.awaitPlugin(p.ID)
	spec := specOf(p, volume.SingleNodeWriter)
	if made, err := c.create("db", specOf(p, volume.SingleNodeWriter)); err != nil || len(made.Warnings) != 1 ||
		!strings.Contains(made.Warnings[0], v.Status.ExternalID) {
		t.Errorf("a new volume of a name that a node holds: %+v, %v", made, err)
	}
	if err := c.delete("db", 0); !fault.Has(err, fault.NotReady) { // it is not the one that is held; others may be
		t.Errorf("the delete of a volume while a node holds things of another state: %v", err)
	}
	if _, err := wire.VolumeRegister.Call(t.Context(), c.conn,
		&wire.VolumeWriteRequest{Volume: volID("found"), Spec: spec, ExternalID: v.Status.ExternalID}); err != nil {
		t.Fatal(err)
	}
	if err := c.delete("found", 0); !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), ids.Short(a.ID)) {
		t.Fatalf("the delete of a volume in use: %v", err)
	}
	c.runJob("b", "found", volume.SingleNodeWriter)
	time.Sleep(300 * time.Millisecond)
	if got := m.driver.Alive(); !slices.Equal(got, []string{"t.1"}) {
		t.Fatalf("alive: %v", got)
	}
	m.endOrphan(a.ID)
	c.running("b") // the node follows when nothing of the other state is left
	c.stopJob("b")
	c.released()
	if err := c.delete("db", 50*time.Second); err != nil {
		t.Error(err)
	}
	if err := c.delete("found", 50*time.Second); err != nil {
		t.Fatal(err)
	}
	c.atRest(p)
}

// TestADeleteWaitsForWhatNodesHold: right after the servers began to lead, nothing is known of what nodes did since.
func TestADeleteWaitsForWhatNodesHold(t *testing.T) {
	t.Parallel()
	c, p, m := oneNode(t)
	c.away(m)
	c.serve() // the node's agent does not run; in this state it counts as ready
	if err := c.delete("db", 0); !fault.Has(err, fault.NotReady) ||
		!strings.Contains(err.Error(), ids.Short(m.client.ID())) {
		t.Fatalf("%v", err)
	}
	m.start("one")
	if err := c.delete("db", 50*time.Second); err != nil {
		t.Fatal(err)
	}
	c.atRest(p)
}

// TestANodeThatWasAwayForDaysMakesNoOrphans: its jobs were purged and collected meanwhile, and leaderships changed.
func TestANodeThatWasAwayForDaysMakesNoOrphans(t *testing.T) {
	t.Parallel()
	c, p, m := oneNode(t)
	c.runJob("a", "db", volume.SingleNodeWriter)
	a := c.running("a")
	m.stop()
	if _, err := wire.JobDeregister.Call(t.Context(), c.conn,
		&wire.JobDeregisterRequest{Namespace: ids.DefaultNamespace, Job: "a", Purge: true}); err != nil {
		t.Fatal(err)
	}
	c.down(m.client.ID())
	// A person vouches for the node's end; then nothing keeps the alloc.
	if _, err := wire.VolumeDetach.Call(t.Context(), c.conn,
		&wire.VolumeDetachRequest{Volume: volID("db"), Node: m.client.ID(), Attest: "it is off"}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.end()
		c.serve()
	}
	// As the round of garbage collection of a day later does.
	gone := &collection.Collect{Nodes: []ids.Node{m.client.ID()}}
	if _, _, err := c.s.Propose(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.SystemGC.Call(t.Context(), c.conn, &wire.Empty{}); err != nil {
		t.Fatal(err)
	}
	if c.s.Store().Snapshot().Alloc(nil, a.ID) != nil {
		t.Fatal("the alloc was not collected")
	}
	m.start("one")
	eventually(t, "what was removed is ended", func() bool { return len(m.driver.Alive()) == 0 && !m.has(a.ID) })
	if o := c.orphans(m); len(o) != 0 {
		t.Errorf("orphans %+v", o)
	}
	c.atRest(p)
}

// TestRestartsAndUpgradesMakeNoOrphans restarts both halves several times over a running alloc.
func TestRestartsAndUpgradesMakeNoOrphans(t *testing.T) {
	t.Parallel()
	c, p, m := oneNode(t)
	c.runJob("a", "db", volume.SingleNodeWriter)
	a := c.running("a")
	var marks []string
	for range 3 {
		c.away(m)
		c.back(m, "one", "")
		eventually(t, "the node has seen this leadership", func() bool {
			at := c.s.Store().Snapshot().Point(nil)
			return m.client.Seen().Mark == at.Mark && m.client.Armed()
		})
		marks = append(marks, m.client.Seen().Mark)
	}
	if slices.Sort(marks); len(slices.Compact(marks)) != 3 {
		t.Errorf("marks %v", marks)
	}
	if o := c.orphans(m); len(o) != 0 || !m.has(a.ID) || !slices.Equal(m.driver.Alive(), []string{"t.1"}) {
		t.Errorf("orphans %+v, alive %v", o, m.driver.Alive())
	}
	if n := count(p, "NodeStageVolume") + count(p, "NodeStage"); n > 1 {
		t.Errorf("staged %d times", n)
	}
	c.stopJob("a")
	c.atRest(p)
}

// TestAnotherLeadershipMakesNoOrphans: the node goes on while the servers change; it says anew what it holds.
func TestAnotherLeadershipMakesNoOrphans(t *testing.T) {
	t.Parallel()
	c, p, m := oneNode(t)
	c.mustCreate("spare", p, volume.SingleNodeWriter)
	c.runJob("a", "db", volume.SingleNodeWriter)
	c.running("a")
	for range 3 {
		c.end()
		c.serve()
		eventually(t, "the node has seen this leadership", func() bool {
			return m.client.Seen().Mark == c.s.Store().Snapshot().Point(nil).Mark && m.client.Armed()
		})
	}
	if err := c.delete("spare", 50*time.Second); err != nil { // the node has reported under the newest mark
		t.Error(err)
	}
	if err := c.delete("db", 0); !fault.Has(err, fault.Busy) {
		t.Errorf("the delete of a volume in use: %v", err)
	}
	if o := c.orphans(m); len(o) != 0 || !slices.Equal(m.driver.Alive(), []string{"t.1"}) {
		t.Errorf("orphans %+v, alive %v", o, m.driver.Alive())
	}
	c.stopJob("a")
	c.atRest(p)
}

// TestARebootMakesNoOrphans: nothing of what ran is left, and what is wanted runs again.
func TestARebootMakesNoOrphans(t *testing.T) {
	t.Parallel()
	c, p, m := oneNode(t)
	c.runJob("a", "db", volume.SingleNodeWriter, func(j *job.Job) {
		j.TaskGroups[0].RestartPolicy = &job.RestartPolicy{Attempts: 2, Interval: time.Minute, Mode: job.RestartFail}
	})
	a := c.running("a")
	c.away(m)
	m.driver, m.boot = mock.New(), "another boot"
	m.driver.Capabilities.Mounts = driver.MountAll
	c.back(m, "one", "")
	eventually(t, "the task runs again", func() bool { return slices.Equal(m.driver.Alive(), []string{"t.2"}) })
	if o := c.orphans(m); len(o) != 0 || c.running("a").ID != a.ID {
		t.Errorf("orphans %+v", o)
	}
	c.stopJob("a")
	c.atRest(p)
}
