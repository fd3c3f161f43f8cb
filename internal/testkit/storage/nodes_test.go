package storage

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/job"
	modelnode "berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/server/fsm"
	"berth/internal/wire"
)

// two is a cluster of two nodes whose plugins share one provider and one record.
func two(t *testing.T, rules ...string) (c *cluster, one, other *member, p *csitest.Plugin) {
	t.Helper()
	c = newCluster(t)
	p = c.startPlugin(csitest.Fake{NodeID: "node-a"}, rules...)
	q := csitest.New(t,
		csitest.Options{
			Record:   p.Record,
			Unjudged: "it writes into the record of the other, which is judged",
			World:    c,
			Rules:    rules,
			Fake:     csitest.Fake{Mount: csitest.MountBind, NodeID: "node-b", Dir: p.Dir},
		})
	one, other = c.member("one", p), c.member("two", q)
	c.awaitPlugin(p.ID)
	eventually(t, "both nodes have the plugin", func() bool {
		n := 0
		for x := range c.s.Store().Snapshot().Nodes(nil, "") {
			for _, i := range x.CSI {
				if i.Healthy() && i.StorageNode != "" {
					n++
				}
			}
		}
		return n == 2
	})
	return c, one, other, p
}

// on keeps a job on one node.
func on(m *member) func(*job.Job) {
	return func(j *job.Job) {
		j.Constraints = append(j.Constraints,
			&job.Constraint{LTarget: "${node.unique.id}", Operand: "=", RTarget: string(m.client.ID())})
	}
}

// TestAnExclusiveVolumeMovesInOrder: the other node attaches only after the first released it and was detached.
func TestAnExclusiveVolumeMovesInOrder(t *testing.T) {
	t.Parallel()
	c, one, other, p := two(t, "(NodeUnpublish * before Internal once)")
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("a", "db", volume.SingleNodeWriter, on(one))
	c.running("a")
	c.stopJob("a")
	c.runJob("b", "db", volume.SingleNodeWriter, on(other))
	c.running("b")
	var order []string
	for _, e := range p.Entries() {
		if e.Kind == proxy.CallEnds && e.Code == "OK" &&
			(strings.HasPrefix(e.RPC, "Controller") && strings.HasSuffix(e.RPC, "lishVolume") ||
				strings.HasPrefix(e.RPC, "NodeUn") || e.RPC == "NodeStageVolume") {
			order = append(order, e.RPC+" "+e.Node)
		}
	}
	want := []string{"ControllerPublishVolume node-a", "NodeStageVolume node-a", "NodeUnpublishVolume node-a",
		"NodeUnstageVolume node-a",
		"ControllerUnpublishVolume node-a", "ControllerPublishVolume node-b", "NodeStageVolume node-b"}
	if !slices.Equal(order, want) {
		t.Errorf("order\n%s", strings.Join(order, "\n"))
	}
	c.stopJob("b")
	c.atRest(p)
}

// TestASharedVolumeReachesAnotherNodeWhileOneCannotRelease: a detach that fails holds up nobody else.
func TestASharedVolumeReachesAnotherNodeWhileOneCannotRelease(t *testing.T) {
	t.Parallel()
	c, one, other, p := two(t, "(ControllerUnpublish * before Unavailable)")
	c.mustCreate("share", p, volume.MultiNodeMultiWriter)
	c.runJob("a", "share", volume.MultiNodeMultiWriter, on(one))
	c.running("a")
	c.stopJob("a")
	eventually(t, "the detach failed", func() bool { return count(p, "ControllerUnpublishVolume") > 0 })
	c.runJob("b", "share", volume.MultiNodeMultiWriter, on(other))
	c.running("b")
	one.p.Rules()
	other.p.Rules()
	c.stopJob("b")
	c.atRest(p)
}

// TestADeadNodesVolumeNeedsAPersonsWord: silence alone frees nothing; an attested end does, and the node
// that comes back all the same cleans up before anything else.
func TestADeadNodesVolumeNeedsAPersonsWord(t *testing.T) {
	t.Parallel()
	c, one, other, p := two(t)
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("a", "db", volume.SingleNodeWriter, on(other))
	c.running("a")
	dead := other.client.ID()
	attest := func() error {
		_, err := wire.VolumeDetach.Call(t.Context(), c.conn,
			&wire.VolumeDetachRequest{Volume: volID("db"), Node: dead, Attest: "its power supply burned"})
		return err
	}
	if err := attest(); err == nil || !strings.Contains(err.Error(), "not down") {
		t.Errorf("a living node was declared dead: %v", err)
	}
	other.stop()
	c.down(dead)
	burn(t, other)
	c.runJob("b", "db", volume.SingleNodeWriter, on(one))
	eventually(t, "the claim of the lost allocation is being released", func() bool {
		for cl := range c.s.Store().Snapshot().Claims(nil) {
			if cl.Node == dead && cl.State == volume.Releasing {
				return true
			}
		}
		return false
	})
	time.Sleep(300 * time.Millisecond)
	if got := count(p, "ControllerPublishVolume"); got != 1 {
		t.Fatalf("attached elsewhere without proof: %v", p.Calls())
	}
	if err := attest(); err != nil {
		t.Fatal(err)
	}
	c.running("b")
	cleaned := func() (n int) {
		for _, e := range p.Entries() {
			if e.Kind == proxy.CallEnds && e.Code == "OK" && e.RPC == "NodeUnstageVolume" && e.Node == "node-b" {
				n++
			}
		}
		return n
	}
	before := cleaned()
	other.start("two")
	eventually(t, "the node that came back has cleaned up", func() bool { return cleaned() == before+1 })
	c.stopJob("a")
	c.stopJob("b")
	c.atRest(p)
}

// down has the servers take a node down as if it had been silent.
func (c *cluster) down(id ids.Node) {
	c.t.Helper()
	if _, _, err := c.s.Propose(c.t.Context(), &fsm.NodeStatus{
		Nodes:       []ids.Node{id},
		Status:      modelnode.StatusDown,
		Description: "silent",
		Seed:        ids.New(),
	}); err != nil {
		c.t.Fatal(err)
	}
}

// burn takes away what the plugin of a dead node has mounted, as a reboot does.
func burn(t *testing.T, m *member) {
	t.Helper()
	m.p.Mark(proxy.Fenced, proxy.Entry{Node: "node-b"})
	m.p.Mark(proxy.Rebooted, proxy.Entry{Node: "node-b"})
	client := m.p.Connect()
	for i := range m.c.s.Store().Snapshot().InventoryOf(nil, m.client.ID()) {
		id := i.Entry.ExternalID
		for _, p := range i.Entry.Publications {
			if err := client.Unpublish(t.Context(),
				csi.UnpublishRequest{VolumeID: id, TargetPath: p.Path}); err != nil {
				t.Fatal(err)
			}
			staging := filepath.Join(csimanager.HostBase(m.dir, i.Entry.Plugin), "s", ids.Segment(id))
			if err := client.Unstage(t.Context(), csi.UnstageRequest{VolumeID: id, StagingPath: staging}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Given a node whose agent is started again, then the servers believe the second start after the first, and act on the
// results of the calls that each has made, of every kind, and the world feeds all of it to the oracle: an older one
// that was believed after a newer one would break invariant I22.
func TestTheWorldSeesWhichAgentStartIsBelieved(t *testing.T) {
	c := newCluster(t)
	p := c.startPlugin(csitest.Fake{})
	m := c.member("n1", p)
	believed := func(number uint64) func() bool {
		return func() bool {
			c.watch.mu.Lock()
			defer c.watch.mu.Unlock()
			return slices.ContainsFunc(c.watch.obeyed, func(o oracle.Obeyed) bool {
				return o.Node == string(m.client.ID()) && o.Start == number
			})
		}
	}
	eventually(t, "the first start is believed", believed(1))
	c.awaitPlugin(p.ID)
	c.mustCreate("db", p, volume.SingleNodeWriter)
	made, err := wire.SnapshotCreate.Call(t.Context(), c.conn,
		&wire.SnapshotCreateRequest{Volume: volID("db"), Name: "cut", Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.VolumeExpand.Call(t.Context(), c.conn,
		&wire.VolumeExpandRequest{Volume: volID("db"), Min: 2 << 20, Wait: time.Minute}); err != nil {
		t.Fatal(err)
	}
	c.runJob("a", "db", volume.SingleNodeWriter)
	c.running("a")
	acted := func(start uint64, kinds ...string) {
		for _, kind := range kinds {
			eventually(t, "the world sees the result of "+kind, func() bool {
				c.watch.mu.Lock()
				defer c.watch.mu.Unlock()
				return slices.ContainsFunc(c.watch.acts(), func(o oracle.Obeyed) bool {
					return o.Node == string(m.client.ID()) && o.Start == start && o.What == "result of "+kind
				})
			})
		}
	}
	acted(1, wire.CallCreate, wire.CallSnapshot, wire.CallExpand, wire.CallAttach)
	m.stop()
	m.start("n1")
	eventually(t, "the second start is believed", believed(2))
	c.stopJob("a")
	c.atRest(p)
	if _, err := wire.SnapshotDelete.Call(t.Context(), c.conn, &wire.SnapshotDeleteRequest{
		Namespace:  ids.DefaultNamespace,
		Plugin:     ids.Plugin(p.ID),
		SnapshotID: made.Snapshot.ExternalID,
		Wait:       time.Minute,
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.delete("db", time.Minute); err != nil {
		t.Fatal(err)
	}
	acted(2, wire.CallDetach, wire.CallDeleteSnapshot, wire.CallDelete)
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	if !slices.IsSortedFunc(c.watch.obeyed, func(a, b oracle.Obeyed) int { return cmp.Compare(a.Start, b.Start) }) {
		t.Errorf("the servers have believed %+v", c.watch.obeyed)
	}
}
