package broker

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

// write changes the state by a command of its own.
func write(t rapid.TB, store *state.Store, fn func(*state.Tx)) {
	t.Helper()
	stamp := store.Snapshot().Stamp()
	stamp.Index++
	if err := store.Write(stamp, func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

// write is write for a state to which commands are proposed, too.
func (d *desk) write(fn func(*state.Tx)) {
	d.t.Helper()
	write(d.t, d.Store, fn)
	d.Skip(1)
}

// restore replaces the state by another one, in which fn writes at a later index than there was in either.
func restore(t rapid.TB, store, saved *state.Store, fn func(*state.Tx)) {
	t.Helper()
	stamp := store.Snapshot().Stamp()
	stamp.Index = max(stamp.Index, saved.Snapshot().Index()) + 1
	var data bytes.Buffer
	err := saved.Write(stamp, func(tx *state.Tx) error { fn(tx); tx.TouchAll(); return nil })
	if err == nil {
		err = saved.Snapshot().Persist(&data)
	}
	if err == nil {
		err = store.Restore(&data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func evaluation(id, of int, status string) *eval.Eval {
	return &eval.Eval{
		ID:        ids.Eval(fmt.Sprint("e", id)),
		Namespace: ids.DefaultNamespace,
		Job:       ids.Job(fmt.Sprint("j", of)),
		Status:    status,
	}
}

// knowsTheState fails unless the broker has exactly the evaluations that the state says are not over, as they are
// there, and in its heaps exactly those that stand there. What a worker has, it brings back.
func knowsTheState(t rapid.TB, b *Broker, snap *state.Snap) {
	t.Helper()
	open := map[ids.Eval]bool{}
	for e := range snap.OpenEvals(nil) {
		open[e.ID] = true
		switch it := b.evals[e.ID]; {
		case it == nil && b.settled[e.ID] > snap.Index(): // a worker knows better
		case it == nil:
			t.Fatalf("%s is %s, and not known", e.ID, e.Status)
		case it.eval != e:
			t.Fatalf("%s is known as it was at index %d, not %d", e.ID, it.eval.ModifyIndex, e.ModifyIndex)
		case it.place == inBlocked && e.Status != eval.StatusBlocked:
			t.Fatalf("%s waits as a blocked one, and is %s", e.ID, e.Status)
		}
	}
	places := map[place]int{}
	for id, it := range b.evals {
		places[it.place]++
		if !open[id] && it.place != withAWork {
			t.Fatalf("%s is over or gone, and known", id)
		}
	}
	if len(b.ready) != places[inReady] || len(b.timed) != places[inTimed] || b.waiting != places[inBlocked] {
		t.Fatalf("%d are ready, %d timed, %d blocked; the places are %v", len(b.ready), len(b.timed), b.waiting, places)
	}
}

// nobodyWaitsInVain fails if a blocked evaluation waits although something of what it waits for changed since it was
// looked at: all allocs are asked about each.
func nobodyWaitsInVain(t rapid.TB, b *Broker, snap *state.Snap) {
	t.Helper()
	for id, it := range b.evals {
		if it.place != inBlocked {
			continue
		}
		if at := snap.TableIndex(state.Nodes); at > it.seen {
			t.Fatalf("%s was looked at at index %d, and a node changed at %d", id, it.seen, at)
		}
		if at := snap.TableIndex(state.Shortages); it.storage && at > it.seen {
			t.Fatalf("%s was looked at at index %d, and storage changed at %d", id, it.seen, at)
		}
		for a := range snap.AllocsSince(it.seen + 1) {
			if a.Terminal() || a.Job == it.job.Job {
				t.Fatalf("%s was looked at at index %d, and an alloc of %s changed at %d", id, it.seen, a.Job,
					a.ModifyIndex)
			}
		}
	}
}

// drawn is a broker that looks when it is told to, over a state to which anything is done that a test draws.
type drawn struct {
	*rapid.T
	store, saved *state.Store
	b            *Broker
	out          []taken
}

// taken is an evaluation with a worker, who looks at the state of an index.
type taken struct {
	id   ids.Eval
	seen uint64
}

func (d *drawn) of(what string, these ...string) string {
	return rapid.SampledFrom(these).Draw(d.T, what)
}

// change writes or forgets some evaluations, and perhaps something that blocked ones wait for.
func (d *drawn) change(tx *state.Tx) {
	for range rapid.IntRange(1, 3).Draw(d.T, "evaluations") {
		id := rapid.IntRange(0, 5).Draw(d.T, "evaluation")
		status := d.of("status", eval.StatusPending, eval.StatusBlocked, eval.StatusComplete, "")
		if status == "" {
			tx.DeleteEval(evaluation(id, 0, "").ID)
			continue
		}
		e := evaluation(id, id%3, status)
		e.SnapshotIndex = tx.Stamp().Index - rapid.Uint64Range(0, 1).Draw(d.T, "older")
		tx.PutEval(e)
	}
	switch d.of("input", "", "", "node", "alloc", "shortage") {
	case "node":
		tx.PutNode(&node.Node{ID: "n"})
	case "alloc":
		job := evaluation(0, rapid.IntRange(0, 4).Draw(d.T, "of job"), "").Job // some have no evaluation
		tx.PutAlloc(&alloc.Alloc{
			ID:            ids.Alloc(job),
			Namespace:     ids.DefaultNamespace,
			Job:           job,
			DesiredStatus: alloc.DesiredRun,
			ClientStatus:  d.of("alloc is", alloc.ClientRunning, alloc.ClientComplete),
		})
	case "shortage":
		tx.PutShortage(&plugin.Shortage{})
	}
}

func (d *drawn) look() {
	d.Helper()
	d.b.look(d.store.Snapshot())
	knowsTheState(d, d.b, d.store.Snapshot())
	nobodyWaitsInVain(d, d.b, d.store.Snapshot())
	if len(d.b.fresh) > 0 {
		d.Fatalf("%d are looked at again and again", len(d.b.fresh))
	}
}

// bringBack has the workers end what they have, in one way or another.
func (d *drawn) bringBack() {
	for _, it := range d.out {
		snap, id := d.store.Snapshot(), it.id
		e := snap.Eval(nil, id)
		switch end := d.of("end", "ack", "block", "nack"); {
		case end == "nack":
			d.b.Nack(id)
		case end == "block" && e != nil && e.Status == eval.StatusBlocked:
			d.b.Block(id, max(it.seen, e.ModifyIndex), rapid.Bool().Draw(d.T, "storage"))
			nobodyWaitsInVain(d, d.b, snap)
		default:
			d.b.Ack(id, snap.Index()+rapid.Uint64Range(0, 1).Draw(d.T, "ahead"))
		}
	}
	d.out = nil
}

// Given any evaluations that are written, ended and forgotten by commands of which several come between two looks, and
// workers that bring back what they took, when the state is looked at, then the broker has what the state has, and no
// blocked one waits for what has changed since; and so it is when another state takes its place meanwhile.
func TestWhateverIsWrittenIsFollowed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := &drawn{T: r, store: state.New(), saved: state.New()}
		d.b = New(d.store, slog.New(slog.DiscardHandler))
		for range rapid.IntRange(1, 30).Draw(r, "deeds") {
			switch d.of("deed", "write", "write", "look", "take", "back", "restore") {
			case "write":
				write(r, d.store, d.change)
			case "look":
				d.look()
			case "take":
				if got := d.b.take(); got != nil {
					d.out = append(d.out, taken{got.Eval.ID, d.store.Snapshot().Index()})
				}
			case "back":
				d.bringBack()
			case "restore":
				restore(r, d.store, d.saved, func(tx *state.Tx) {
					for i := range 6 { // none is older than what the broker may know
						tx.DeleteEval(evaluation(i, 0, "").ID)
					}
					d.change(tx)
				})
			}
		}
		write(r, d.store, d.change)
		d.look()
	})
}

// Given a broker that follows, when a saved state takes the place of the present one, then it has what that one has: it
// has forgotten the evaluation that is not there, knows those that are, and goes on following.
func TestARestoreReplacesWhatIsKnown(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.put("gone", "a")
		d.put("kept", "b")
		synctest.Wait()
		kept := *d.Store.Snapshot().Eval(nil, "kept")
		restore(t, d.Store, state.New(), func(tx *state.Tx) {
			tx.PutEval(&kept)
			tx.PutEval(&eval.Eval{ID: "new", Namespace: ids.DefaultNamespace, Job: "c", Status: eval.StatusPending})
		})
		d.Skip(10)
		synctest.Wait()
		if s := d.b.Stats(); s != (Stats{Ready: 2}) {
			t.Errorf("after the restore: %+v", s)
		}
		d.write(func(tx *state.Tx) { tx.DeleteEval("kept") })
		d.want("new", "nothing")
	})
}

// Given a worker that has an evaluation, when that ends elsewhere, or is forgotten with all of its job, and the worker
// gives it back, or says that it is blocked, then it is not handed out again.
func TestWhatVanishesWhileAWorkerHasItDoesNotComeAgain(t *testing.T) {
	for _, vanishes := range []bool{false, true} {
		for _, back := range []string{"given back", "blocked"} {
			t.Run(fmt.Sprint(back, " vanished ", vanishes), func(t *testing.T) {
				atDesk(t, func(t *testing.T, d *desk) {
					d.put("e1", "a")
					d.put("e2", "a")
					d.want("e1")
					if vanishes {
						d.write(func(tx *state.Tx) { tx.DeleteEval("e1") })
					} else {
						d.put("e1", "a", func(e *eval.Eval) { e.Status = eval.StatusCanceled })
					}
					synctest.Wait()
					if back == "blocked" {
						d.b.Block("e1", d.Store.Snapshot().Index(), true)
					} else {
						d.b.Nack("e1")
					}
					d.want("e2", "nothing")
					time.Sleep(2 * lastPause)
					d.want("nothing")
					if s := d.b.Stats(); s != (Stats{Working: 1}) {
						t.Errorf("left: %+v", s)
					}
				})
			})
		}
	}
}

// Given a broker that was kept from looking while more was written than is remembered, when it looks, then it has what
// the state has.
func TestWhoComesBackAfterTooMuchLooksAtAll(t *testing.T) {
	store := state.New()
	b := New(store, slog.New(slog.DiscardHandler))
	write(t, store, func(tx *state.Tx) {
		for i := range 20 {
			tx.PutEval(evaluation(i, i, eval.StatusPending))
		}
	})
	b.look(store.Snapshot())
	write(t, store, func(tx *state.Tx) {
		tx.DeleteEval(evaluation(0, 0, "").ID)
		tx.PutEval(evaluation(1, 1, eval.StatusComplete))
		tx.PutEval(evaluation(2, 2, eval.StatusBlocked))
		tx.PutEval(evaluation(20, 20, eval.StatusPending))
	})
	for range 70 {
		write(t, store, func(tx *state.Tx) {
			for i := range 1000 {
				tx.PutEval(evaluation(3+i%10, 3+i%10, eval.StatusPending))
			}
		})
	}
	b.look(store.Snapshot())
	knowsTheState(t, b, store.Snapshot())
}

// Given a worker that acknowledges an outcome which the state of this server does not show yet, and which never comes,
// when the state is past its index, then the evaluation is offered again, although nobody has written it.
func TestAnOutcomeThatDoesNotComeIsNotBelieved(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.put("e1", "a")
		d.want("e1")
		d.b.Ack("e1", d.Store.Snapshot().Index()+2)
		d.want("nothing")
		d.put("other", "b", func(e *eval.Eval) { e.Status = eval.StatusComplete })
		d.want("nothing")
		d.put("other", "b", func(e *eval.Eval) { e.Status = eval.StatusComplete })
		d.want("e1", "nothing")
	})
}

// Given two blocked evaluations, of which only the second one's job has volumes, when something is written that neither
// waits for, then both stay; when something changes that they wait for, then it wakes whom it matters to.
func TestAChangeWakesThoseThatItMattersTo(t *testing.T) {
	status := func(of ids.Job, client string) func(*state.Tx) {
		return func(tx *state.Tx) {
			tx.PutAlloc(&alloc.Alloc{
				ID:            "a",
				Namespace:     ids.DefaultNamespace,
				Job:           of,
				DesiredStatus: alloc.DesiredRun,
				ClientStatus:  client,
			})
		}
	}
	changesANode := func(tx *state.Tx) { tx.PutNode(&node.Node{ID: "n"}) }
	for _, step := range []struct {
		name  string
		write func(*state.Tx)
		wakes []ids.Eval
	}{
		{"an evaluation ends", func(tx *state.Tx) { tx.PutEval(evaluation(9, 9, eval.StatusComplete)) }, nil},
		{"an alloc of another job runs", status("j3", alloc.ClientRunning), nil},
		{"an alloc of another job ends", status("j3", alloc.ClientComplete), []ids.Eval{"b1", "b2"}},
		{"an alloc of its own job runs", status("j2", alloc.ClientRunning), []ids.Eval{"b2"}},
		{"storage changes", func(tx *state.Tx) { tx.PutShortage(&plugin.Shortage{}) }, []ids.Eval{"b2"}},
		{"a node changes", changesANode, []ids.Eval{"b1", "b2"}},
	} {
		t.Run(step.name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				d.put("b1", "j1", blocked(1))
				d.put("b2", "j2", blocked(1))
				d.write(changesANode)
				d.want("b1", "b2")
				d.b.Block("b1", d.Store.Snapshot().Index(), false)
				d.b.Block("b2", d.Store.Snapshot().Index(), true)
				d.want("nothing")
				d.write(step.write)
				d.want(append(step.wakes, "nothing")...)
			})
		})
	}
}

// Given one that waits, and another job whose alloc changed while it had no evaluation, when an evaluation of that job
// comes that was blocked before, or is brought back by a worker who looked before, then it is looked at again.
func TestWhatChangedBeforeItWasBlockedWakesItToo(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.put("b1", "j1", blocked(d.Store.Snapshot().Index()+1))
		d.want("nothing")
		before := d.Store.Snapshot().Index()
		d.write(func(tx *state.Tx) {
			tx.PutAlloc(&alloc.Alloc{ID: "a", Namespace: ids.DefaultNamespace, Job: "j2"})
		})
		d.want("nothing")
		d.put("b2", "j2", blocked(before))
		d.want("b2", "nothing")
		d.b.Block("b2", before, false)
		d.want("b2", "nothing")
		d.b.Block("b2", d.Store.Snapshot().Index(), false)
		d.want("nothing")
	})
}

// BenchmarkFollow looks at the state after the evaluation of one job has changed, among others that are blocked.
func BenchmarkFollow(b *testing.B) {
	for _, count := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			c := localstate.New(b)
			br := New(c.Store, slog.New(slog.DiscardHandler))
			put := func(n int) {
				write(b, c.Store, func(tx *state.Tx) {
					for i := range n {
						e := evaluation(i, i, eval.StatusBlocked)
						e.SnapshotIndex = tx.Stamp().Index
						tx.PutEval(e)
					}
				})
			}
			put(count)
			br.look(c.Store.Snapshot())
			for b.Loop() {
				b.StopTimer()
				put(1)
				b.StartTimer()
				br.look(c.Store.Snapshot())
			}
			if s := br.Stats(); s.Blocked != count {
				b.Errorf("%+v", s)
			}
		})
	}
}
