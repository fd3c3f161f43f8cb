package storage

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/port/driver"
	"berth/internal/server"
	"berth/internal/wire"
)

// save returns the state of the servers as a file.
func (c *cluster) save() []byte {
	c.t.Helper()
	stream, err := wire.StateSave.Open(c.t.Context(), c.conn, &wire.Empty{})
	if err != nil {
		c.t.Fatal(err)
	}
	var out []byte
	for {
		part, err := stream.Recv()
		if err != nil {
			c.t.Fatal(err)
		}
		if out = append(out, part.Data...); part.Last {
			return out
		}
	}
}

// restore replaces the state of the servers.
func (c *cluster) restore(file []byte) error {
	c.t.Helper()
	stream, err := wire.StateRestore.Open(c.t.Context(), c.conn, &wire.RecoveryWord{By: "a test"})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := stream.Send(&wire.StateChunk{Data: file, Last: true}); err != nil {
		c.t.Fatal(err)
	}
	_, err = stream.Recv()
	return err
}

// TestServersRestoredToBeforeAClaimDeleteNothingInUse restores the state by command under a running alloc: it runs on,
// is an orphan, and its volume is neither deleted nor given away; everything else goes on as soon as the node was
// heard, and nobody has to say that none is missing.
func TestServersRestoredToBeforeAClaimDeleteNothingInUse(t *testing.T) {
	t.Parallel()
	c, p, m := oneNode(t)
	c.mustCreate("kept", p, volume.SingleNodeWriter)
	c.runJob("known", "kept", volume.SingleNodeWriter)
	c.running("known")
	saved := c.save()
	c.runJob("a", "db", volume.SingleNodeWriter)
	a := c.running("a")
	before, index := c.s.Store().Snapshot().Meta(nil).Incarnation, c.s.Store().Snapshot().Index()
	alive := m.driver.Alive()

	if err := c.restore(saved); err != nil {
		t.Fatal(err)
	}
	s := c.s.Store().Snapshot()
	if now := s.Meta(nil); now.Incarnation == before || !slices.Contains(now.Parents, before) || s.Index() <= index {
		t.Errorf("the state is %+v at %d, it was at %d", now, s.Index(), index)
	}
	eventually(t, "the servers hear of the orphan", func() bool { return len(c.orphans(m)) == 1 })
	if o := c.orphans(m)[0]; o.Alloc != a.ID {
		t.Errorf("the orphan is %+v", o)
	}
	eventually(t, "the node has reported", func() bool {
		r := c.s.Store().Snapshot().Recovery(nil)
		return r.Whole && !r.Ended.IsZero()
	})
	if err := c.delete("db", 0); !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), ids.Short(a.ID)) {
		t.Errorf("the delete of a volume in use: %v", err)
	}
	if got := m.driver.Alive(); !slices.Equal(got, alive) || count(p, "DeleteVolume") != 0 {
		t.Fatalf("alive %v, were %v; %d volumes deleted", got, alive, count(p, "DeleteVolume"))
	}
	c.running("known")
	m.endOrphan(a.ID)
	eventually(t, "a person ends it", func() bool { return len(c.orphans(m)) == 0 })
	c.runJob("again", "db", volume.SingleNodeWriter)
	c.running("again")
	c.stopJob("again")
	c.stopJob("known")
	c.released()
	for _, id := range []string{"db", "kept"} {
		if err := c.delete(id, 50*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	c.away(m) // what was restored is durable
	c.back(m, "one", "")
	if r := c.s.Store().Snapshot().Recovery(nil); r == nil || r.Ended.IsZero() {
		t.Errorf("after a restart the recovery is %+v", r)
	}
	c.atRest(p)
}

// A restore is refused before anything is replaced, where the file is damaged or of another cluster that is in use.
func TestARestoreThatCannotBeIsRefusedBeforeAnythingIsReplaced(t *testing.T) {
	t.Parallel()
	c, p, _ := oneNode(t)
	saved := c.save()
	at := c.s.Store().Snapshot().Meta(nil).Incarnation
	if err := c.restore(saved[:len(saved)-20]); !fault.Has(err, fault.Invalid) {
		t.Errorf("a file that was cut: %v", err)
	}
	other, q, _ := oneNode(t)
	if err := c.restore(other.save()); !fault.Has(err, fault.Denied) {
		t.Errorf("a state with secrets of another key: %v", err)
	}
	dir := t.TempDir() // of a cluster with the same key
	if out, err := exec.Command("cp", "-a", filepath.Join(c.cfg.DataDir, "keyring"), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	twin := newClusterWith(t, server.Config{Dev: true, DataDir: dir})
	if err := c.restore(twin.save()); !fault.Has(err, fault.Conflict) {
		t.Errorf("the state of another cluster: %v", err)
	}
	if c.s.Store().Snapshot().Meta(nil).Incarnation != at || c.s.Store().Snapshot().Volume(nil, volID("db")) == nil {
		t.Error("something was replaced")
	}
	if err := c.delete("db", 50*time.Second); err != nil {
		t.Error(err)
	}
	if err := other.delete("db", 50*time.Second); err != nil {
		t.Error(err)
	}
	c.atRest(p)
	other.atRest(q)
}

// TestWhatARestoreBringsBackIsNotBegunAgain: an alloc that ended after the state was saved is not begun by the node
// that has no record of it. One of a service is replaced, one of a batch job waits for a person: it may have done its
// work.
func TestWhatARestoreBringsBackIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{job.TypeService, job.TypeBatch} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c, p, m := oneNode(t)
			c.runJob("a", "db", volume.SingleNodeWriter, func(j *job.Job) { j.Type = kind })
			a := c.running("a")
			saved := c.save()
			c.stopJob("a")
			c.released()
			if _, err := wire.SystemGC.Call(t.Context(), c.conn, &wire.Empty{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the node has forgotten it", func() bool { return !m.has(a.ID) })
			if err := c.restore(saved); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is lost", func() bool {
				n := c.s.Store().Snapshot().Alloc(nil, a.ID)
				return n.ClientStatus == alloc.ClientLost && n.ClientDescription == alloc.LostInRestore
			})
			if kind == job.TypeBatch {
				ask := func(force bool) {
					t.Helper()
					out, err := wire.JobEvaluate.Call(t.Context(), c.conn, &wire.JobEvaluateRequest{
						Namespace:       ids.DefaultNamespace,
						Job:             "a",
						ForceReschedule: force,
					})
					if err != nil {
						t.Fatal(err)
					}
					eventually(t, "it is looked at", func() bool {
						return c.s.Store().Snapshot().Eval(nil, out.Eval).Status == eval.StatusComplete
					})
				}
				c.recovered()
				ask(false)
				view, err := wire.RecoveryStatus.Call(t.Context(), c.conn, &wire.Query{})
				if err != nil || len(view.Held) != 1 || view.Held[0].Alloc != a.ID || len(m.driver.Alive()) != 0 {
					t.Fatalf("%v: held %+v, alive %v", err, view.Held, m.driver.Alive())
				}
				ask(true)
			}
			if now := c.running("a"); now.ID == a.ID {
				t.Error("what was restored was begun again")
			}
			c.stopJob("a")
			c.released()
			c.atRest(p)
		})
	}
}

// recovered waits until every node was heard.
func (c *cluster) recovered() {
	c.t.Helper()
	eventually(c.t, "the recovery ends", func() bool {
		return !c.s.Store().Snapshot().Recovery(nil).Ended.IsZero()
	})
}

// Given a recovery that waits for a node which is off, when a task with a volume crashes, then it is not started again
// and says why, also after a restart of its agent, while one without a volume is; when the recovery has ended it goes
// on in the same allocation.
func TestATaskWithAVolumeIsNotRestartedDuringARecovery(t *testing.T) {
	t.Parallel()
	c, one, other, p := two(t)
	c.mustCreate("db", p, volume.SingleNodeWriter)
	restarts := func(j *job.Job) {
		j.TaskGroups[0].RestartPolicy = &job.RestartPolicy{Attempts: 20, Interval: time.Hour, Mode: job.RestartFail}
	}
	c.runJob("a", "db", volume.SingleNodeWriter, on(one), restarts)
	a := c.running("a")
	c.runJob("plain", "", "", on(one), restarts, func(j *job.Job) {
		g := j.TaskGroups[0]
		g.Volumes, g.Tasks[0].VolumeMounts = nil, nil
		g.Tasks[0].Name = "u"
	})
	plain := c.running("plain")
	saved := c.save()
	off := other.client.ID()
	other.stop()
	c.down(off)
	if err := c.restore(saved); err != nil {
		t.Fatal(err)
	}
	says := func(id ids.Alloc, task, text string) func() bool {
		return func() bool {
			s := c.s.Store().Snapshot().Alloc(nil, id).TaskStates[task]
			return s != nil && slices.ContainsFunc(s.Events, func(e *alloc.TaskEvent) bool {
				return strings.Contains(e.DisplayMessage, text)
			})
		}
	}
	eventually(t, "the node follows the restored state", func() bool {
		return one.client.Seen().Incarnation == c.s.Store().Snapshot().Meta(nil).Incarnation
	})
	one.driver.Exit("t", driver.ExitResult{ExitCode: 1})
	one.driver.Exit("u", driver.ExitResult{ExitCode: 1})
	eventually(t, "the task says what it waits for", says(a.ID, "t", "berth operator recovery status"))
	eventually(t, "the other is restarted", func() bool { return slices.Contains(one.driver.Alive(), "u.2") })
	one.stop()
	one.start("one")
	eventually(t, "it says so to the servers again", says(a.ID, "t", "berth operator recovery status"))
	if got := one.driver.Alive(); !slices.Equal(got, []string{"u.2"}) {
		t.Errorf("during the recovery alive: %v", got)
	}
	c.down(off) // the restored state counted it as ready
	if _, err := wire.RecoveryDismiss.Call(t.Context(), c.conn,
		&wire.RecoveryWord{Node: off, Reason: "scrapped"}); err != nil {
		t.Fatal(err)
	}
	c.recovered()
	eventually(t, "it goes on", func() bool { return slices.Contains(one.driver.Alive(), "t.2") })
	if now := c.running("a"); now.ID != a.ID || c.running("plain").ID != plain.ID {
		t.Errorf("another allocation: %s, was %s", now.ID, a.ID)
	}
	c.stopJob("a")
	c.stopJob("plain")
	c.atRest(p)
}

// Given a snapshot of a volume that was cut after the state was saved, and a recovery that waits for a node, then it is
// listed as the provider has it, but not deleted, with a sentence that says so; when the recovery has ended, a person
// deletes it by plugin and id. What the provider does not have is not deleted.
func TestASnapshotThatARestoreForgotIsDeletedByAPerson(t *testing.T) {
	t.Parallel()
	c, one, other, p := two(t)
	c.mustCreate("db", p, volume.SingleNodeWriter)
	saved := c.save()
	made, err := wire.SnapshotCreate.Call(t.Context(), c.conn,
		&wire.SnapshotCreateRequest{Volume: volID("db"), Name: "cut", Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	id, off := made.Snapshot.ExternalID, other.client.ID()
	other.stop()
	c.down(off)
	if err := c.restore(saved); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node follows the restored state", func() bool {
		return one.client.Seen().Incarnation == c.s.Store().Snapshot().Meta(nil).Incarnation
	})
	c.awaitPlugin(p.ID)
	del := func(id string) error {
		_, err := wire.SnapshotDelete.Call(t.Context(), c.conn,
			&wire.SnapshotDeleteRequest{Plugin: ids.Plugin(p.ID), SnapshotID: id, Wait: time.Minute})
		return err
	}
	c.lists(p, id)
	if err := del(id); !fault.Has(err, fault.NotReady) || !strings.Contains(err.Error(), "state was restored") {
		t.Errorf("deleted during the recovery: %v", err)
	}
	c.down(off)
	if _, err := wire.RecoveryDismiss.Call(t.Context(), c.conn,
		&wire.RecoveryWord{Node: off, Reason: "scrapped"}); err != nil {
		t.Fatal(err)
	}
	c.recovered()
	if err := del("no-such-snapshot"); !fault.Has(err, fault.NotFound) {
		t.Errorf("one that nobody has: %v", err)
	}
	if n := count(p, "DeleteSnapshot"); n != 0 {
		t.Fatalf("the provider was asked %d times to delete", n)
	}
	if err := del(id); err != nil {
		t.Fatal(err)
	}
	c.lists(p)
	if err := del(id); !fault.Has(err, fault.NotFound) {
		t.Errorf("deleted once more: %v", err)
	}
	if err := c.delete("db", 50*time.Second); err != nil {
		t.Fatal(err)
	}
	c.atRest(p)
}

// lists fails the test unless exactly these snapshots are listed.
func (c *cluster) lists(p *csitest.Plugin, want ...string) {
	c.t.Helper()
	var got []string
	eventually(c.t, "the plugin's node answers", func() bool { // it connects anew after a restore
		list, err := wire.SnapshotList.Call(c.t.Context(), c.conn, &wire.SnapshotListRequest{Plugin: ids.Plugin(p.ID)})
		if err != nil {
			c.t.Log(err)
			return false
		}
		for _, sn := range list.Items {
			got = append(got, sn.ExternalID)
		}
		return true
	})
	if !slices.Equal(got, want) {
		c.t.Errorf("listed are %q, want %q", got, want)
	}
}
