package raftlog

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
)

// restored is the only number in the state that takes the place of another.
const restored = 1_000_000

// restores has a server replace the state, and waits for so long.
func (c *cluster) restores(m *member, patience time.Duration) error {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	err := m.log.Restore(ctx, 1, number(restored))
	if got := m.sm.all(); !slices.Equal(got, []uint64{restored}) {
		c.t.Fatalf("the server that replaces the state has %v", got)
	}
	return err
}

// between lets what goes between two servers through, or nothing of it.
func between(a, b *member, through bool) {
	if a.trans == nil || b.trans == nil {
		return
	}
	if !through {
		a.trans.Disconnect(b.trans.LocalAddr())
		b.trans.Disconnect(a.trans.LocalAddr())
		return
	}
	a.trans.Connect(b.trans.LocalAddr(), b.trans)
	b.trans.Connect(a.trans.LocalAddr(), a.trans)
}

// part lets nothing through between some servers and the others, or everything again.
func (c *cluster) part(whole bool, some ...*member) {
	for _, m := range some {
		for _, other := range c.members {
			if !slices.Contains(some, other) {
				between(m, other, whole)
			}
		}
	}
}

// goOn has a server that leads, and is none of these, take numbers, which it acknowledges.
func (c *cluster) goOn(without ...*member) {
	c.t.Helper()
	for range 20 {
		c.next++
		for try := 0; ; try++ {
			m := c.leaderBut(without...)
			if _, _, err := m.log.Apply(c.t.Context(), number(c.next)); err == nil {
				break
			}
			if try == 100 {
				c.t.Fatalf("the others do not take %d", c.next)
			}
			time.Sleep(time.Second)
		}
		c.acked = append(c.acked, c.next)
	}
}

func (c *cluster) leaderBut(without ...*member) *member {
	c.t.Helper()
	for range 600 {
		for _, m := range c.members {
			if m.log == nil || slices.Contains(without, m) {
				continue
			}
			if lead, _ := m.log.Leadership(); lead.Leading {
				return m
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatal("no other server leads")
	return nil
}

// overruled wants a server to end, because the others have another state, and starts it again.
func (c *cluster) overruled(m *member) {
	c.t.Helper()
	select {
	case err := <-m.ended:
		m.ended <- err
		if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "start the agent again") {
			c.t.Fatalf("%s ended with %v", m.name, err)
		}
	case <-time.After(time.Minute):
		c.t.Fatalf("%s keeps a state that no other server has; it said:\n%s", m.name, m.said.String())
	}
	c.kill(m)
	c.start(m)
}

// filesOf copies the directory of a server's log, as a crash at this moment would leave it.
func (c *cluster) filesOf(m *member) string {
	c.t.Helper()
	synctest.Wait()
	to := filepath.Join(c.t.TempDir(), "files")
	if err := os.CopyFS(to, os.DirFS(m.dir)); err != nil {
		c.t.Fatal(err)
	}
	return to
}

// Given three servers, when the one that leads replaces the state while it reaches nobody, and the others go on without
// it, then that state is nowhere in the end, and nothing is lost that the others acknowledged, wherever the server that
// replaced it was killed; and it votes for nobody before it has what it had acknowledged itself.
func TestARestoreThatReachesNobodyIsUndone(t *testing.T) {
	for name, story := range map[string]func(c *cluster, lead *member, before string){
		"it is not killed": func(c *cluster, lead *member, _ string) { c.part(true, lead) },
		"it is killed later": func(c *cluster, lead *member, _ string) {
			c.kill(lead)
			c.start(lead)
		},
		"it is killed before it drops the log": func(c *cluster, lead *member, before string) {
			c.kill(lead)
			log := files.WALDir(lead.dir)
			if err := os.RemoveAll(log); err != nil {
				c.t.Fatal(err)
			}
			if err := os.CopyFS(log, os.DirFS(files.WALDir(before))); err != nil {
				c.t.Fatal(err)
			}
			c.start(lead)
		},
	} {
		for _, snapshots := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t)
					c.propose(20)
					lead := c.leader()
					if snapshots {
						c.snapshots()
						c.propose(20)
					}
					c.part(false, lead)
					before := c.filesOf(lead)
					if err := c.restores(lead, 100*time.Millisecond); err == nil {
						t.Error("a restore that reached nobody was acknowledged")
					}
					c.goOn(lead)
					if snapshots {
						c.snapshots(lead)
						c.goOn(lead)
					}
					story(c, lead, before)
					c.overruled(lead)
					c.agree()
					if slices.Contains(lead.sm.all(), restored) {
						t.Error("the state that was never agreed on is there")
					}
					if left, err := filepath.Glob(filepath.Join(lead.dir, "overruled*")); err != nil || len(left) > 0 {
						t.Errorf("%v is left (%v)", left, err)
					}
				})
			})
		}
	}
}

// snapshots has all write what they have to a snapshot, but some.
func (c *cluster) snapshots(but ...*member) {
	c.t.Helper()
	for _, m := range c.members {
		if slices.Contains(but, m) {
			continue
		}
		if err := m.log.Snapshot(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Given a server that was overruled, when it has dropped its state and nobody leads of whom it gets the others', then
// it neither votes nor leads, where it knows the members and where its log tells of itself alone; when one leads again
// all have all that was acknowledged.
func TestAnOverruledServerVotesWhenItHasTheOthersState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.propose(20)
		lead := c.leader()
		c.part(false, lead)
		if err := c.restores(lead, 100*time.Millisecond); err == nil {
			t.Error("a restore that reached nobody was acknowledged")
		}
		c.goOn(lead)
		now := c.leaderBut(lead)
		i := slices.IndexFunc(c.members, func(m *member) bool { return m != lead && m != now })
		third := c.members[i]
		c.part(true, lead)
		select {
		case err := <-lead.ended:
			lead.ended <- err
		case <-time.After(time.Minute):
			t.Fatal("it keeps a state that no other server has")
		}
		c.kill(lead)
		c.kill(now)
		c.start(lead)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			for _, m := range []*member{lead, third} {
				if l, _ := m.log.Leadership(); l.Leading {
					t.Fatalf("%s leads with the vote of a server that has lost what it acknowledged", m.name)
				}
			}
		}
		c.kill(lead)
		c.start(now)
		c.goOn(lead)
		c.start(lead)
		c.agree()
	})
}

// Given three servers, when the one that leads replaces the state, and one other gets it before both are killed, or all
// are, then all have one state in the end, and it has what was acknowledged after the restore was.
func TestARestoreThatReachesOneLeavesOneState(t *testing.T) {
	for name, story := range map[string]func(c *cluster, lead, one, third *member){
		"all are killed": func(c *cluster, lead, one, third *member) {
			for _, m := range c.members {
				c.kill(m)
			}
			for _, m := range c.members {
				c.start(m)
			}
		},
		"the two go on": func(c *cluster, lead, one, third *member) { c.part(true, third) },
		"the one that led is killed": func(c *cluster, lead, one, third *member) {
			c.kill(lead)
			c.part(true, third)
			c.goOn(lead)
			c.start(lead)
		},
		"the other is killed": func(c *cluster, lead, one, third *member) {
			c.kill(one)
			c.part(true, third)
			c.goOn(one)
			c.start(one)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.propose(20)
				lead := c.leader()
				one := c.follower()
				i := slices.IndexFunc(c.members, func(m *member) bool { return m != lead && m != one })
				third := c.members[i]
				c.part(false, third)
				if err := c.restores(lead, time.Minute); err != nil {
					t.Fatal(err)
				}
				c.acked = []uint64{restored}
				c.goOn(third)
				story(c, lead, one, third)
				c.agree()
			})
		})
	}
}

// Given servers of which all but the one that replaces the state are killed before they have it, when they come back
// first and go on, then they overrule it; when it comes back with them, then one of the two states is everywhere.
func TestARestoreWhoseOthersAreKilledLeavesOneState(t *testing.T) {
	for _, first := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			c.propose(20)
			lead := c.leader()
			c.part(false, lead)
			if err := c.restores(lead, 100*time.Millisecond); err == nil {
				t.Error("a restore that reached nobody was acknowledged")
			}
			acked := c.acked
			for _, m := range c.members {
				c.kill(m)
			}
			for _, m := range c.members {
				if m != lead {
					c.start(m)
				}
			}
			if first {
				c.goOn(lead)
				acked = c.acked
			}
			c.start(lead)
			c.acked = nil
			overruled := first
			if !first {
				select {
				case err := <-lead.ended:
					lead.ended <- err
					overruled = true
				case <-time.After(10 * time.Second):
				}
			}
			if overruled {
				c.overruled(lead)
				c.acked = acked
			}
			c.agree()
			if got := lead.sm.all(); slices.Contains(got, restored) == overruled {
				t.Errorf("the server was overruled: %t, and all have %v", overruled, got)
			}
		})
	}
}

// Given a server whose log holds entries from eleven on, and before them a snapshot, when a leader sends something,
// then it is overruled if that leader has another entry in the place of the snapshot's last one, or is a later one that
// looks for the end of the log before it; a request from which that cannot be told overrules nothing.
func TestWhoOverrulesASnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		term, prev, prevTerm uint64
		entries              string // terms of what follows
		overruled            bool
	}{
		"a heartbeat":                      {4, 0, 0, "", false},
		"the same entry before":            {4, 10, 3, "4", false},
		"another entry before":             {4, 10, 4, "4", true},
		"the same entry among others":      {4, 8, 3, "333", false},
		"another entry among others":       {4, 8, 3, "344", true},
		"another entry at the end":         {4, 9, 3, "4", true},
		"entries beyond it":                {4, 11, 3, "44", false},
		"a piece that ends before it":      {4, 5, 3, "33", true},
		"a piece from the first on":        {4, 0, 0, "33", true},
		"nothing, at the end of a log":     {4, 9, 3, "", true},
		"nothing, from the one that wrote": {3, 9, 3, "", false},
		"nothing, from a leader before":    {2, 10, 2, "", false},
		"nothing, beyond it":               {4, 12, 4, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := openedGuard(t, smallLog(t))
			snaps, err := files.OpenSnapshots(g.dir, files.NewLogger(g.log))
			if err != nil {
				t.Fatal(err)
			}
			_, trans := raft.NewInmemTransport("one")
			req := &raft.AppendEntriesRequest{Term: c.term, PrevLogEntry: c.prev, PrevLogTerm: c.prevTerm}
			req.Entries = entries(c.prev+1, c.entries)
			here, _ := newChecked(trans, g.log, g, snaps)
			if err := here.overruled(req); err != nil {
				t.Errorf("a server without a snapshot is overruled: %v", err)
			}
			sink, err := snaps.Create(1, 10, 3, raft.Configuration{}, 1, trans)
			if err == nil {
				err = sink.Close()
			}
			if err == nil {
				err = g.StoreLogs(entries(11, "33"))
			}
			if err == nil {
				err = g.SetUint64(files.CurrentTerm, 3)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := here.overruled(req); fault.Has(err, fault.Conflict) != c.overruled {
				t.Errorf("it says %v", err)
			}
			found, _ := files.Check(g.dir) // that the store is open it calls an error
			if want := map[bool]uint64{true: 12}[c.overruled]; found.Overruled != want {
				t.Errorf("it votes from entry %d on, not %d", found.Overruled, want)
			}
		})
	}
}
