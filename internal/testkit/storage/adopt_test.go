package storage

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// adopt gives an orphan to the servers as a person does who has been shown its job.
func (m *member) adopt(id ids.Alloc, as ids.Job) error {
	t := m.c.t
	t.Helper()
	ref := wire.AgentRef{Node: m.client.ID(), Alloc: id}
	o, err := wire.AllocOrphan.Call(t.Context(), m.c.conn, &ref)
	if err != nil {
		return err
	}
	seen, err := wire.DigestOf(o.Bundle.Job)
	if err != nil {
		t.Fatal(err)
	}
	_, err = wire.OrphanAdopt.Call(t.Context(), m.c.conn,
		&wire.OrphanAdoptRequest{Orphans: []wire.AgentRef{ref}, As: as, Seen: seen, By: "a test"})
	if err == nil {
		m.c.watch.adopted(id)
	}
	return err
}

// Given a state that brings back an alloc which has ended since, and a later user of the same volume that runs as an
// orphan, when the node has reported in the new incarnation, then the claim that came back ends by that, though the
// volume stays staged for the orphan; and the orphan can be adopted.
func TestAClaimThatARestoreBroughtBackDoesNotKeepItsVolumesUserAnOrphan(t *testing.T) {
	t.Parallel()
	for name, fake := range map[string]csitest.Fake{"attached": {}, "not attached": unattached} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			p := c.startPlugin(fake)
			m := c.member("one", p)
			c.awaitPlugin(p.ID)
			c.mustCreate("db", p, volume.SingleNodeWriter)
			c.runJob("a", "db", volume.SingleNodeWriter)
			before := c.running("a")
			saved := c.save()
			c.stopJob("a")
			c.released()
			c.collected(m, before.ID)
			c.runJob("b", "db", volume.SingleNodeWriter)
			b := c.running("b")
			alive := m.driver.Alive()
			if err := c.restore(saved); err != nil {
				t.Fatal(err)
			}
			c.recovered()
			eventually(t, "the servers hear of the orphan", func() bool { return len(c.orphans(m)) == 1 })
			eventually(t, "what the restore brought back is lost", func() bool {
				return c.s.Store().Snapshot().Alloc(nil, before.ID).ClientStatus == alloc.ClientLost
			})
			eventually(t, "its claim ends by the node's report", func() bool {
				return c.s.Store().Snapshot().Claim(nil, volume.ClaimKey{Volume: volID("db"), Alloc: before.ID}) == nil
			})
			err := c.delete("db", 0)
			if !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), ids.Short(b.ID)) {
				t.Errorf("the delete of a volume in use: %v", err)
			}
			if err := m.adopt(b.ID, ""); err != nil {
				t.Fatal(err)
			}
			eventually(t, "nothing is an orphan", func() bool { return len(c.orphans(m)) == 0 })
			if now := c.running("b"); now.ID != b.ID || !slices.Equal(m.driver.Alive(), alive) {
				t.Errorf("%s runs, it was %s; alive %v, were %v", now.ID, b.ID, m.driver.Alive(), alive)
			}
			if n := count(p, "NodePublishVolume") + count(p, "NodeUnpublishVolume"); n != 3 {
				t.Errorf("%d publications and their ends, want those of before the restore", n)
			}
			c.stopJob("a")
			c.stopJob("b")
			c.released()
			if err := c.delete("db", 50*time.Second); err != nil {
				t.Fatal(err)
			}
			c.atRest(p)
		})
	}
}

// collected waits until the node has forgotten an alloc that ended.
func (c *cluster) collected(m *member, id ids.Alloc) {
	c.t.Helper()
	if _, err := wire.SystemGC.Call(c.t.Context(), c.conn, &wire.Empty{}); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "the node has forgotten it", func() bool { return !m.has(id) })
}
