package server

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// cut is a job on a node that falls silent, and another node that goes on.
type cut struct {
	t      *testing.T
	s      *Server
	c      wire.Conn
	silent wire.NodeIdentity
	beat   []wire.NodeIdentity // the other one, and the silent one once it is back
	first  *alloc.Alloc
}

// begin places a job by what its group says of silent nodes, and has its node say no more.
func begin(t *testing.T, d *job.Disconnect) *cut {
	t.Helper()
	s, c := startWith(t, Config{DataDir: t.TempDir()})
	x := &cut{t: t, s: s, c: c}
	x.silent, _ = join(t, c)
	j := wholeJob("web")
	j.TaskGroups[0].Disconnect = d
	do(t, c, wire.JobRegister, &wire.JobRegisterRequest{Job: j})
	x.until("the first alloc", func(all []*alloc.Alloc) bool { return len(all) == 1 })
	x.first = x.allocs()[0]
	x.runs(x.silent, x.first.ID)
	loud, _ := join(t, c)
	x.beat = append(x.beat, loud)
	return x
}

// passes lets time pass, in which nodes beat, but for the silent one as long as it is.
func (x *cut) passes(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Second) {
		for _, id := range x.beat {
			do(x.t, x.c, wire.NodeHeartbeat, &wire.NodeHeartbeatRequest{NodeIdentity: id})
		}
	}
	synctest.Wait()
}

func (x *cut) allocs() (out []*alloc.Alloc) {
	for a := range x.s.Store().Snapshot().AllocsByJob(nil, ids.DefaultNamespace, "web") {
		out = append(out, a)
	}
	return out
}

func (x *cut) until(what string, ok func([]*alloc.Alloc) bool) {
	x.t.Helper()
	for range 1000 {
		if ok(x.allocs()) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	x.t.Fatalf("there is not %s: %+v", what, x.allocs())
}

// runs has a node say that an alloc runs since now.
func (x *cut) runs(on wire.NodeIdentity, id ids.Alloc) {
	x.t.Helper()
	x.says(on, id, alloc.ClientRunning, time.Now())
}

func (x *cut) says(on wire.NodeIdentity, id ids.Alloc, status string, since time.Time) {
	x.t.Helper()
	do(x.t, x.c, wire.NodeUpdate, &wire.NodeUpdateRequest{NodeIdentity: on, Allocs: []*alloc.Alloc{{
		ID:           id,
		ClientStatus: status,
		TaskStates:   map[string]*alloc.TaskState{"t": {State: alloc.TaskRunning, StartedAt: since}},
	}}})
}

// status expects how the first alloc is.
func (x *cut) status(want string) {
	x.t.Helper()
	if got := x.s.Store().Snapshot().Alloc(nil, x.first.ID); got.ClientStatus != want {
		x.t.Errorf("the alloc is %s (%s), want %s", got.ClientStatus, got.ClientDescription, want)
	}
}

// replaced returns what was placed instead of the first alloc.
func (x *cut) replaced() *alloc.Alloc {
	x.t.Helper()
	var out *alloc.Alloc
	x.until("a replacement", func(all []*alloc.Alloc) bool {
		for _, a := range all {
			if a.PreviousAlloc == x.first.ID {
				out = a
			}
		}
		return out != nil
	})
	if out.Node != x.beat[0].Node {
		x.t.Errorf("it is placed on %s", out.Node)
	}
	return out
}

// returns has the silent node come back, with the alloc as it is there.
func (x *cut) returns(status string, since time.Time) {
	x.t.Helper()
	_, info := testNode()
	info.ID = x.silent.Node
	info.Datacenter, info.NodePool = "dc1", "default"
	info.Attributes = map[string]string{}
	info.Resources = node.Resources{CPUShares: 1e6, CPUCores: 2, MemoryMB: 1e6, DiskMB: 1e6}
	do(x.t, x.c, wire.NodeRegister, &wire.NodeRegisterRequest{NodeIdentity: x.silent, Info: info})
	x.beat = append(x.beat, x.silent)
	x.says(x.silent, x.first.ID, status, since)
}

// Given a group that waits for silent nodes and replaces what is on them, when a node is silent for less than that,
// then its alloc is unknown and another one runs; when it comes back, one of the two is kept, by what the job says, and
// the other one is told to end.
func TestOfTwoAllocsOneIsKeptWhenANodeComesBack(t *testing.T) {
	for reconcile, keepsFirst := range map[string]bool{
		job.KeepOriginal:    true,
		job.KeepReplacement: false,
		job.KeepLongest:     true,
		job.KeepBestScore:   true, // equal scores: what was there first
	} {
		t.Run(reconcile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := begin(t, &job.Disconnect{LostAfter: time.Hour, Replace: true, Reconcile: reconcile})
				began := time.Now()
				x.passes(time.Minute)
				x.status(alloc.ClientUnknown)
				second := x.replaced()
				x.runs(x.beat[0], second.ID)
				x.passes(10 * time.Minute)
				x.status(alloc.ClientUnknown)
				if n := len(x.allocs()); n != 2 {
					t.Errorf("there are %d allocs", n)
				}
				x.returns(alloc.ClientRunning, began)
				x.until("one that is told to end", func(all []*alloc.Alloc) bool {
					for _, a := range all {
						if a.ServerTerminal() && (a.ID == second.ID) == keepsFirst {
							return true
						}
					}
					return false
				})
				x.passes(time.Minute)
				live := 0
				for _, a := range x.allocs() {
					if !a.Terminal() {
						live++
					}
				}
				if live != 1 || len(x.allocs()) != 2 {
					t.Errorf("%d are to run, of %d", live, len(x.allocs()))
				}
			})
		})
	}
}

// Given an alloc that was restarted when its node came back, when the longest running one is kept, then that is the
// replacement; and one that failed meanwhile is kept by no strategy.
func TestWhatHasFailedOrBegunAnewIsNotKept(t *testing.T) {
	for reconcile, status := range map[string]string{
		job.KeepLongest:  alloc.ClientRunning,
		job.KeepOriginal: alloc.ClientFailed,
	} {
		synctest.Test(t, func(t *testing.T) {
			x := begin(t, &job.Disconnect{LostAfter: time.Hour, Replace: true, Reconcile: reconcile})
			x.passes(time.Minute)
			second := x.replaced()
			x.runs(x.beat[0], second.ID)
			x.passes(time.Minute)
			x.returns(status, time.Now())
			x.until("the end of the first one", func([]*alloc.Alloc) bool {
				return x.s.Store().Snapshot().Alloc(nil, x.first.ID).Terminal()
			})
			x.passes(time.Minute)
			if got := x.s.Store().Snapshot().Alloc(nil, second.ID); got.Terminal() || len(x.allocs()) != 2 {
				t.Errorf("%s: the replacement is %s, desired %s, of %d", reconcile, got.ClientStatus,
					got.DesiredStatus, len(x.allocs()))
			}
		})
	}
}

// Given a group that waits for silent nodes, when the time is over, then the alloc is lost, and what replaced it stays.
func TestAnAllocIsLostWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, &job.Disconnect{LostAfter: time.Hour, Replace: true, Reconcile: job.KeepOriginal})
		x.passes(time.Minute)
		second := x.replaced()
		x.runs(x.beat[0], second.ID)
		x.passes(55 * time.Minute)
		x.status(alloc.ClientUnknown)
		x.passes(10 * time.Minute)
		x.status(alloc.ClientLost)
		if got := x.s.Store().Snapshot().Alloc(nil, second.ID); got.Terminal() || len(x.allocs()) != 2 {
			t.Errorf("the replacement is %s, of %d", got.ClientStatus, len(x.allocs()))
		}
		x.returns(alloc.ClientRunning, time.Now())
		x.passes(time.Minute)
		x.status(alloc.ClientLost)
	})
}

// Given a group that is not replaced, when its node is silent for hours, then its alloc is unknown and nothing is
// placed; when the node comes back it runs on, and when a person moves it instead, another one is placed.
func TestWhatIsNotReplacedWaitsForItsNode(t *testing.T) {
	for _, moved := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			x := begin(t, &job.Disconnect{Reconcile: job.KeepBestScore})
			x.passes(3 * time.Hour)
			x.status(alloc.ClientUnknown)
			if n := len(x.allocs()); n != 1 {
				t.Errorf("there are %d allocs", n)
			}
			if moved {
				do(t, x.c, wire.AllocStop, &wire.AllocStopRequest{Alloc: x.first.ID})
				x.replaced()
				x.status(alloc.ClientLost)
				return
			}
			x.returns(alloc.ClientRunning, time.Now())
			x.passes(time.Minute)
			x.status(alloc.ClientRunning)
			if n := len(x.allocs()); n != 1 || x.allocs()[0].ServerTerminal() {
				t.Errorf("there are %d allocs, the first desired %s", n, x.allocs()[0].DesiredStatus)
			}
		})
	}
}

// Given a group that its node ends by itself, when the node is silent, then nothing is placed before it has ended it.
func TestNothingIsPlacedBeforeANodeHasEndedItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := 10 * time.Minute
		x := begin(t, &job.Disconnect{StopOnClientAfter: &stop, Replace: true, Reconcile: job.KeepBestScore})
		x.passes(9 * time.Minute)
		x.status(alloc.ClientUnknown)
		if n := len(x.allocs()); n != 1 {
			t.Errorf("there are %d allocs", n)
		}
		x.passes(3 * time.Minute)
		x.status(alloc.ClientLost)
		x.replaced()
	})
}

// Given an alloc on a silent node that is not replaced, and a second one that runs, when the group is made smaller,
// then the one that runs stays for as long as nobody hears of the other; when its node comes back, the group is as
// asked.
func TestAGroupThatShrinksKeepsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, &job.Disconnect{LostAfter: time.Hour, Replace: false})
		x.passes(time.Minute)
		x.status(alloc.ClientUnknown)
		scale := func(count int) {
			j := wholeJob("web")
			j.TaskGroups[0].Disconnect = &job.Disconnect{LostAfter: time.Hour, Replace: false}
			j.TaskGroups[0].Count = count
			do(t, x.c, wire.JobRegister, &wire.JobRegisterRequest{Job: j})
		}
		scale(2)
		var second *alloc.Alloc
		x.until("a second alloc", func(all []*alloc.Alloc) bool {
			for _, a := range all {
				if a.ID != x.first.ID {
					second = a
				}
			}
			return second != nil
		})
		x.runs(x.beat[0], second.ID)
		scale(1)
		x.passes(time.Minute)
		now := func(id ids.Alloc) *alloc.Alloc { return x.s.Store().Snapshot().Alloc(nil, id) }
		if a := now(second.ID); a.ServerTerminal() || now(x.first.ID).ServerTerminal() {
			t.Fatalf("what runs is told to end for what may: %s, %q", a.DesiredStatus, a.DesiredDescription)
		}
		x.returns(alloc.ClientRunning, time.Now().Add(-time.Hour))
		x.passes(10 * time.Second)
		if !now(second.ID).ServerTerminal() || now(x.first.ID).ServerTerminal() {
			t.Errorf("the group has the first: %s, and the second: %s", now(x.first.ID).DesiredStatus,
				now(second.ID).DesiredStatus)
		}
	})
}
