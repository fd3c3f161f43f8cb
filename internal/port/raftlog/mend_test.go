package raftlog

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/durable"
	"berth/internal/port/raftlog/files"
	"berth/internal/port/raftlog/recent"
	"berth/internal/testkit/powerloss"
)

// Given a follower that was killed and whose log was damaged, when it starts again, then it comes back whole and equal,
// and says what it did.
func TestAFollowersDamagedLogIsFetchedAnew(t *testing.T) {
	const meta = "wal/" + files.MetaFile
	for name, damage := range map[string]func(*testing.T, string){
		"data in the first segment":  onFile("wal/*.wal", flip(100)),
		"data in the last segment":   onFile("wal/*.wal$", flip(195)),
		"the last entry":             onFile("wal/*.wal$", flip(200)),
		"head of the first segment":  onFile("wal/*.wal", flipped(9)),
		"head of the last segment":   onFile("wal/*.wal$", flipped(9)),
		"list of the first segment":  onFile("wal/*.wal", flipped(-20)),
		"end of the first segment":   onFile("wal/*.wal", flipped(-3)),
		"first entry's frame":        onFile("wal/*.wal", flipped(files.SegmentHead+1)),
		"half of the first segment":  onFile("wal/*.wal", half),
		"half of the last segment":   onFile("wal/*.wal$", halfUsed),
		"zeros in the last segment":  onFile("wal/*.wal$", zerosUsed),
		"no first segment":           gone("wal/*.wal"),
		"no last segment":            gone("wal/*.wal$"),
		"both meta pages":            onFile(meta, cleared(0, 8192)),
		"pages of wal-meta.db":       onFile(meta, cleared(8192, 1<<30)),
		"half of wal-meta.db":        onFile(meta, half),
		"no wal-meta.db":             gone(meta),
		"no wal at all":              gone("wal"),
		"no snapshots":               gone("snapshots"),
		"state of the only snapshot": onFile("snapshots/*/state.bin", zeros),
		"copy of the vote":           onFile(files.VoteFile, half),
		"a byte of the copy":         onFile(files.VoteFile, flipped(9)),
		"two places of a segment":    both("wal/*.wal", flip(150)),
		"nothing":                    func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.propose(100)
				m := c.follower()
				c.agree()
				if err := m.log.Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.propose(100)
				time.Sleep(5 * time.Second)
				c.kill(m)
				damage(t, m.dir)
				c.start(m)
				c.propose(10)
				c.agree()
				t.Log(m.said.String())
				c.stop(m)
				if _, err := files.Check(m.dir); err != nil {
					t.Errorf("afterwards its log is damaged: %v", err)
				}
			})
		})
	}
}

// Given two servers of three whose logs are damaged at the same entry, in the middle, when they start, then they get it
// from the third; and while that does not run, they wait, say so, and make up nothing.
func TestWhatTwoHaveLostComesFromTheThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.propose(100)
		c.agree()
		for _, m := range c.members {
			c.kill(m)
		}
		for _, m := range c.members[:2] {
			edit(t, one(t, m.dir, "wal/*.wal", false), flip(50))
			c.start(m)
		}
		time.Sleep(time.Minute)
		for _, m := range c.members[:2] {
			if got := m.log.LastIndex(); got != 0 {
				t.Errorf("%s runs, with entries up to %d", m.name, got)
			}
			for _, want := range []string{"level=WARN", "waits for the others", "c: ", "does not run"} {
				if !strings.Contains(m.said.String(), want) {
					t.Errorf("%s does not say %q:\n%s", m.name, want, m.said.String())
				}
			}
		}
		c.start(c.members[2])
		c.agree()
	})
}

// Given two servers of three that have lost the end of their logs, when all start, then nobody votes: what the two have
// lost may have been acknowledged, and the third may not have it.
func TestALostEndIsNotVotedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.propose(50)
		c.agree()
		behind := c.follower()
		c.kill(behind)
		c.propose(20) // which behind does not have
		for _, m := range c.members {
			if m != behind {
				c.kill(m)
				edit(t, one(t, m.dir, "wal/*.wal", true), flip(c.acked[len(c.acked)-1]))
			}
		}
		for _, m := range c.members {
			c.start(m)
		}
		if lead := c.leader(); lead != nil {
			t.Fatalf("%s leads, though %d entries are gone", lead.name, 20)
		}
		for _, m := range c.members {
			if m != behind && !strings.Contains(m.said.String(), "it does not lead") {
				t.Errorf("%s does not say why it waits:\n%s", m.name, m.said.String())
			}
		}
	})
}

// Given a server whose log lost its end, or something in the middle, and that knows of no other server, when it starts,
// then it stays out and says so: it does not go on with what is left.
func TestWithoutOthersADamagedServerStaysOut(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{"the end": flip(50), "the middle": flip(20)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.propose(50)
				time.Sleep(5 * time.Second)
				m := c.follower()
				for _, other := range c.members {
					c.kill(other)
				}
				edit(t, one(t, m.dir, "wal/*.wal", true), damage)
				c.strangers = true
				c.start(m)
				time.Sleep(time.Minute)
				if got := m.log.LastIndex(); got != 0 {
					t.Errorf("it runs, with entries up to %d", got)
				}
				said := m.said.String()
				select {
				case err := <-m.ended:
					m.ended <- err
					said += err.Error()
				default:
				}
				if !strings.Contains(said, "no other server is known") {
					t.Errorf("it does not say why:\n%s", said)
				}
			})
		})
	}
}

// flipSomething changes one byte somewhere in what a server keeps.
func flipSomething(t *testing.T, r *rand.Rand, dir string) (path string, at int) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Base(path) != "aside" { // that is room, and no data
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	path = files[r.IntN(len(files))]
	edit(t, path, func(b []byte) []byte {
		at = r.IntN(max(used(b), 1))
		b[at] ^= 1 << r.IntN(8)
		return b
	})
	return path, at
}

// Given three servers, of which at any time one at most is damaged, when servers are killed and started in any order,
// the leader and those that mend others among them, then nothing that was acknowledged is lost, and all apply the same.
func TestNoDamageOfAMinorityLosesWhatWasAcknowledged(t *testing.T) {
	for seed := range *seeds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			c := newCluster(t)
			c.propose(20)
			var hurt *member
			for range 25 {
				m := c.members[r.IntN(len(c.members))]
				if r.IntN(3) == 0 {
					m = c.leader() // may be nil
				}
				action := r.IntN(6)
				switch {
				case m == nil:
				case action == 0 && m.log != nil:
					c.kill(m)
				case action == 1 && m.log != nil && hurt == nil:
					hurt = m
					c.kill(m)
					path, at := flipSomething(t, r, m.dir)
					t.Logf("seed %d: %s: byte %d of %s", seed, m.name, at, path)
					c.start(m)
				case action == 2 && m.log != nil:
					_ = m.log.Snapshot(t.Context()) // one that waits to be mended has none
				case m.log == nil:
					c.start(m)
				default:
					c.propose(r.IntN(20))
				}
				if hurt != nil && hurt.log != nil && hurt.log.LastIndex() > 0 {
					hurt = nil // it is whole
				}
				if down := slices.IndexFunc(c.members, func(m *member) bool { return m.log == nil }); down >= 0 &&
					r.IntN(2) == 0 {
					c.start(c.members[down])
				}
			}
			for _, m := range c.members {
				if m.log == nil {
					c.start(m)
				}
			}
			defer func() {
				if t.Failed() {
					for _, m := range c.members {
						all := m.said.String()
						t.Logf("%s runs: %v; it said:\n%s", m.name, m.log != nil, all[max(0, len(all)-5000):])
					}
				}
			}()
			c.agree()
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

var seeds = flag.Uint64("seeds", 12, "how many clusters to damage at random")

// Given a leader whose log is damaged while it runs, when it has to send that entry, then it sends nothing any more and
// ends; the others go on, and it comes back whole.
func TestADamagedLeaderSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.propose(10)
		behind := c.follower()
		c.kill(behind)
		c.propose(20 + recent.Entries) // what was written last is not read from the disk
		lead := c.leader()
		synctest.Wait()
		edit(t, one(t, lead.dir, "wal/*.wal", false), flip(20))
		c.start(behind)
		err := <-lead.ended
		lead.ended <- err
		for _, want := range []string{"is damaged", ".wal"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the leader ended with %v, which does not say %q", err, want)
			}
		}
		c.stop(lead)
		c.propose(5)
		c.start(lead)
		c.agree()
		if strings.Contains(behind.said.String(), "a damaged entry came from the leader") {
			t.Error("it was sent")
		}
	})
}

// damaging is a transport that changes a byte of an entry on its way, once.
type damaging struct {
	*raft.InmemTransport
	done *atomic.Bool
}

func (d damaging) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (d damaging) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	for i, e := range req.Entries {
		if e.Type != raft.LogCommand || !d.done.CompareAndSwap(false, true) {
			continue
		}
		changed := *req
		changed.Entries = slices.Clone(req.Entries)
		other := *e
		other.Data = bytes.Clone(e.Data)
		other.Data[7] ^= 1
		changed.Entries[i] = &other
		req = &changed
	}
	return d.InmemTransport.AppendEntries(id, to, req, resp)
}

// Given an entry that is damaged on its way to a follower, then that refuses it before anything is done for its sake,
// says at which index and by which leader, and gets it again.
func TestAFollowerRefusesADamagedEntryByItsIndexAndLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.damages = &atomic.Bool{}
		for _, m := range c.members {
			c.stop(m)
			c.start(m)
		}
		c.propose(3)
		c.agree()
		lead := c.leader()
		var said string
		for _, m := range c.members {
			said += m.said.String()
		}
		damaged := "a damaged entry came from the leader"
		for _, want := range []string{"level=ERROR", damaged, "index=", "leader=" + lead.name} {
			if !strings.Contains(said, want) {
				t.Errorf("nobody said %q:\n%s", want, said)
			}
		}
	})
}

// Given a log that is being mended, when the power fails at any moment, then there is the damaged log or the mended
// one.
func TestAMendingThatIsCutOffLeavesOneOfTwoLogs(t *testing.T) {
	d := powerloss.Mount(t, powerloss.Config{Cuts: 16, Delay: 2 * time.Millisecond})
	kept := writtenLog(t, Config{})
	whole, err := files.Sift(kept.Dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := kept.withDefaults()
	cfg.Dir = filepath.Join(d.Dir, "raft")
	if err := os.CopyFS(cfg.Dir, os.DirFS(kept.Dir)); err != nil {
		t.Fatal(err)
	}
	edit(t, one(t, cfg.Dir, "wal/*.wal", false), flip(20))
	syncAll(t, cfg.Dir)
	w, err := files.Sift(cfg.Dir)
	if err != nil || w.From == 0 {
		t.Fatalf("nothing is missing: %v", err)
	}
	d.Ack()
	if err := w.Rebuild(cfg.withDefaults().files(), whole.Head); err != nil {
		t.Fatal(err)
	}
	d.Ack()
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		if c.Acked == 0 {
			return
		}
		at := filepath.Join(dir, "raft")
		if err := files.DropUnfinished(at); err != nil {
			t.Fatal(err)
		}
		got, err := files.Sift(at)
		if err != nil {
			t.Fatal(err)
		}
		mended := len(got.Head) == len(whole.Head) // what would follow may have no file yet
		if !mended && (got.From != w.From || c.Acked > 1) {
			t.Errorf("there are %d entries, and %s is missing", len(got.Head), missing(got))
		}
	})
}

// syncAll has everything in a directory on the disk.
func syncAll(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
	if err == nil {
		err = durable.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Given a follower whose log is damaged at its end, and that knows of no server that leads when it starts, when it
// knows the one that does, then it is mended, without another start.
func TestAServerIsMendedByOneThatItHearsOfLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.propose(100)
		m := c.follower()
		c.agree()
		c.unknown.Store(c.leader())
		c.kill(m)
		onFile("wal/*.wal$", halfUsed)(t, m.dir)
		c.start(m)
		time.Sleep(time.Minute)
		if !strings.Contains(m.said.String(), "this server waits for the others") {
			t.Fatalf("it does not wait:\n%s", m.said.String())
		}
		c.unknown.Store(nil)
		c.propose(10)
		c.agree()
		if !strings.Contains(m.said.String(), "the log is mended") {
			t.Errorf("it says:\n%s", m.said.String())
		}
	})
}
