package fsm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/collection"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

func aJob(id ids.Job) *job.Job {
	return &job.Job{
		Namespace:  ids.DefaultNamespace,
		ID:         id,
		Name:       string(id),
		Type:       job.TypeService,
		Priority:   50,
		TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "exec"}}}},
	}
}

func aNode() *node.Node { return &node.Node{ID: ids.Node(ids.New()), Name: "n", SecretHash: "h"} }

func register(t *testing.T, c *localstate.Cluster, j *job.Job) *fsm.JobRegistered {
	t.Helper()
	return c.Must(t, &fsm.JobRegister{Job: j, Seed: ids.New()}).(*fsm.JobRegistered)
}

// anAlloc is a placement of a registered job, not committed yet.
func anAlloc(c *localstate.Cluster, id ids.Job, on ids.Node) *alloc.Alloc {
	j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, id)
	return &alloc.Alloc{
		ID:             ids.Alloc(ids.New()),
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobVersion:     j.Version,
		JobCreateIndex: j.CreateIndex,
		JobType:        j.Type,
		TaskGroup:      "g",
		Name:           fmt.Sprintf("%s.g[0]", j.ID),
		Node:           on,
	}
}

func placed(t *testing.T, c *localstate.Cluster, id ids.Job, on ids.Node) ids.Alloc {
	t.Helper()
	a := anAlloc(c, id, on)
	c.Must(t, &fsm.PlanApply{Place: []*alloc.Alloc{a}})
	return a.ID
}

func TestAJobGetsANewVersionOnlyWhenItsUserChangedIt(t *testing.T) {
	c := localstate.New(t)
	first := register(t, c, aJob("web"))
	same := register(t, c, aJob("web"))
	changed := aJob("web")
	changed.Priority = 60
	second := register(t, c, changed)
	if first.Outcome != fsm.Created || same.Outcome != fsm.Unchanged || second.Outcome != fsm.Updated {
		t.Errorf("outcomes: %s, %s, %s", first.Outcome, same.Outcome, second.Outcome)
	}
	if same.Version != 0 || same.JobModifyIndex != first.JobModifyIndex || second.Version != 1 {
		t.Errorf("versions: %+v, %+v, %+v", first, same, second)
	}
	for _, r := range []*fsm.JobRegistered{first, same, second} {
		if c.Store.Snapshot().Eval(nil, r.Eval.ID) == nil {
			t.Errorf("evaluation of %s is not stored", r.Outcome)
		}
	}
	got := c.Store.Snapshot().JobVersions(nil, ids.DefaultNamespace, "web")
	if len(got) != 2 || got[0].Version != 1 || got[1].Priority != 50 || got[0].CreateIndex != got[1].CreateIndex {
		t.Errorf("versions stored: %d", len(got))
	}
}

func TestOldVersionsGoUnlessAnAllocRefersToThem(t *testing.T) {
	c := localstate.New(t)
	n := aNode()
	c.Must(t, &fsm.NodeRegister{Node: n})
	register(t, c, aJob("web"))
	old := placed(t, c, "web", n.ID)
	for p := range 10 {
		j := aJob("web")
		j.Priority = 60 + p
		register(t, c, j)
	}
	s := c.Store.Snapshot()
	var kept []uint64
	for _, v := range s.JobVersions(nil, ids.DefaultNamespace, "web") {
		kept = append(kept, v.Version)
	}
	if !slices.Equal(kept, []uint64{10, 9, 8, 7, 6, 5, 0}) {
		t.Errorf("kept %v", kept)
	}
	if s.JobOf(nil, s.Alloc(nil, old)) == nil {
		t.Error("the version of a live alloc is gone")
	}
}

func TestARegistrationCanBeHeldToAnIndex(t *testing.T) {
	c := localstate.New(t)
	try := func(index uint64) error {
		_, _, err := c.Propose(t.Context(),
			&fsm.JobRegister{Job: aJob("web"), EnforceIndex: true, ModifyIndex: index, Seed: ids.New()})
		return err
	}
	if err := try(7); err == nil || err.Error() != "Enforcing job modify index 7: job does not exist" {
		t.Errorf("got %v", err)
	}
	if err := try(0); err != nil {
		t.Fatal(err)
	}
	at := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web").JobModifyIndex
	if err := try(0); err == nil || err.Error() != "Enforcing job modify index 0: job already exists" {
		t.Errorf("got %v", err)
	}
	want := fmt.Sprintf("Enforcing job modify index %d: job exists with conflicting job modify index: %d", at+100, at)
	if err := try(at + 100); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if err := try(at); err != nil {
		t.Errorf("the right index was refused: %v", err)
	}
}

func TestARefusedCommandLeavesNothing(t *testing.T) {
	c := localstate.New(t)
	n := aNode()
	c.Must(t, &fsm.NodeRegister{Node: n})
	register(t, c, aJob("web"))
	good, bad := anAlloc(c, "web", n.ID), anAlloc(c, "web", "nowhere")
	before := c.Store.Snapshot().Index()
	_, index, err := c.Propose(t.Context(), &fsm.PlanApply{Place: []*alloc.Alloc{good, bad}})
	if !fault.Has(err, fault.Conflict) {
		t.Fatalf("got %v", err)
	}
	s := c.Store.Snapshot()
	if s.Alloc(nil, good.ID) != nil {
		t.Error("half of the plan was committed")
	}
	if s.Index() != index || index <= before {
		t.Errorf("the state stands at %d, the log at %d", s.Index(), index)
	}
}

func aVolume(mode volume.AccessMode) volume.ID {
	return volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume("v-" + string(mode))}
}

// withVolume stores a ready volume.
func withVolume(t *testing.T, c *localstate.Cluster, mode volume.AccessMode) volume.ID {
	t.Helper()
	id := aVolume(mode)
	stamp := c.Store.Snapshot().Stamp()
	err := c.Store.Write(stamp, func(tx *state.Tx) error {
		use := volume.Capability{AccessMode: mode, AttachmentMode: volume.FileSystem}
		tx.PutVolume(&volume.Volume{
			ID:     id,
			UID:    "u",
			Spec:   volume.Spec{Plugin: "p", Capabilities: []volume.Capability{use}},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x" + string(mode)},
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func aClaim(v volume.ID, a *alloc.Alloc, mode volume.AccessMode, st volume.ClaimState) *volume.Claim {
	return &volume.Claim{
		Volume:         v,
		Alloc:          a.ID,
		Node:           a.Node,
		Job:            a.Job,
		AccessMode:     mode,
		AttachmentMode: volume.FileSystem,
		State:          st,
	}
}

func TestTwoWritersOfOneVolumeCannotBeCommitted(t *testing.T) {
	c := localstate.New(t)
	n, m := aNode(), aNode()
	c.Must(t, &fsm.NodeRegister{Node: n})
	c.Must(t, &fsm.NodeRegister{Node: m})
	v := withVolume(t, c, volume.SingleNodeWriter)
	register(t, c, aJob("db"))
	plan := func(on ids.Node, st volume.ClaimState) (*alloc.Alloc, error) {
		a := anAlloc(c, "db", on)
		_, _, err := c.Propose(t.Context(),
			&fsm.PlanApply{
				Place:  []*alloc.Alloc{a},
				Claims: []*volume.Claim{aClaim(v, a, volume.SingleNodeWriter, st)},
			})
		return a, err
	}
	first, err := plan(n.ID, volume.Held)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan(m.ID, volume.Held); !fault.Has(err, fault.Busy) {
		t.Fatalf("the second writer got %v", err)
	}
	waiting, err := plan(m.ID, volume.Queued)
	if err != nil {
		t.Fatalf("the first in the queue got %v", err)
	}
	if _, err := plan(m.ID, volume.Queued); !fault.Has(err, fault.Busy) {
		t.Errorf("the second in the queue got %v", err)
	}
	s := c.Store.Snapshot()
	claim := s.Claim(nil, volume.ClaimKey{Volume: v, Alloc: first.ID})
	if claim.Epoch.Incarnation != s.Meta(nil).Incarnation || claim.Epoch.Index != claim.CreateIndex ||
		claim.Epoch.Index == 0 {
		t.Errorf("the epoch is %v, created at %d", claim.Epoch, claim.CreateIndex)
	}
	if got := s.Volume(nil, v).Status.AccessMode; got != volume.SingleNodeWriter {
		t.Errorf("the volume's current mode is %q", got)
	}

	// The end of the holder's processes begins the release; the successor that is stopped leaves the queue.
	c.Must(t, &fsm.AllocClientUpdate{
		Seed:   ids.New(),
		Allocs: []*alloc.Alloc{{ID: first.ID, Node: n.ID, ClientStatus: alloc.ClientComplete}},
	})
	c.Must(t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: waiting.ID, Description: "replaced"}}})
	s = c.Store.Snapshot()
	if got := s.Claim(nil, volume.ClaimKey{Volume: v, Alloc: first.ID}); got.State != volume.Releasing ||
		got.Epoch != claim.Epoch {
		t.Errorf("the holder's claim is %+v", got)
	}
	if s.Claim(nil, volume.ClaimKey{Volume: v, Alloc: waiting.ID}) != nil {
		t.Error("a stopped successor still waits")
	}
}

func TestANodeThatGoesDownLosesItsAllocsInTheSameStep(t *testing.T) {
	c := localstate.New(t)
	n := aNode()
	c.Must(t, &fsm.NodeRegister{Node: n})
	register(t, c, aJob("web"))
	a := placed(t, c, "web", n.ID)
	done := c.Must(t,
		&fsm.NodeStatus{Nodes: []ids.Node{n.ID}, Status: node.StatusDown, Seed: ids.New()}).(*fsm.NodeChanged)
	s := c.Store.Snapshot()
	if got := s.Alloc(nil, a); got.ClientStatus != alloc.ClientLost || got.DesiredStatus != alloc.DesiredStop {
		t.Errorf("the alloc is %s/%s", got.DesiredStatus, got.ClientStatus)
	}
	if len(done.Evals) != 1 || s.Eval(nil, done.Evals[0]).TriggeredBy != eval.TriggerNodeUpdate {
		t.Errorf("evaluations: %v", done.Evals)
	}
	// What a node that comes back says of a lost alloc counts only when it is the end.
	c.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{{ID: a, Node: n.ID, ClientStatus: alloc.ClientRunning}}})
	if got := c.Store.Snapshot().Alloc(nil, a).ClientStatus; got != alloc.ClientLost {
		t.Errorf("a lost alloc became %s", got)
	}
	c.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{{ID: a, Node: n.ID, ClientStatus: alloc.ClientComplete}}})
	c.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{{ID: a, Node: n.ID, ClientStatus: alloc.ClientRunning}}})
	if got := c.Store.Snapshot().Alloc(nil, a).ClientStatus; got != alloc.ClientComplete {
		t.Errorf("an ended alloc became %s", got)
	}
}

func TestAFailedAllocAsksForItsReplacementOnce(t *testing.T) {
	c := localstate.New(t)
	n := aNode()
	c.Must(t, &fsm.NodeRegister{Node: n})
	register(t, c, aJob("web"))
	a := placed(t, c, "web", n.ID)
	failed := &fsm.AllocClientUpdate{
		Seed:   "one",
		Allocs: []*alloc.Alloc{{ID: a, Node: n.ID, ClientStatus: alloc.ClientFailed}},
	}
	evals := c.Must(t, failed).([]ids.Eval)
	if len(evals) != 1 || c.Store.Snapshot().Eval(nil, evals[0]).TriggeredBy != eval.TriggerAllocFailure {
		t.Fatalf("evaluations: %v", evals)
	}
	failed.Seed = "two"
	if again := c.Must(t, failed).([]ids.Eval); len(again) != 0 {
		t.Errorf("the same report asked again: %v", again)
	}
	stranger := &fsm.AllocClientUpdate{
		Seed:   "three",
		Allocs: []*alloc.Alloc{{ID: placed(t, c, "web", n.ID), Node: "other", ClientStatus: alloc.ClientFailed}},
	}
	if got := c.Must(t, stranger).([]ids.Eval); len(got) != 0 {
		t.Error("a node reported for another node's alloc")
	}
}

func TestWhatAClaimNamesIsNeverCollected(t *testing.T) {
	c := localstate.New(t)
	n := aNode()
	c.Must(t, &fsm.NodeRegister{Node: n})
	v := withVolume(t, c, volume.SingleNodeWriter)
	register(t, c, aJob("db"))
	a := anAlloc(c, "db", n.ID)
	c.Must(t, &fsm.PlanApply{
		Place:  []*alloc.Alloc{a},
		Claims: []*volume.Claim{aClaim(v, a, volume.SingleNodeWriter, volume.Held)},
	})
	c.Must(t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: "db", Seed: ids.New()})
	c.Must(t, &fsm.PlanApply{Stop: []fsm.AllocStop{{Alloc: a.ID}}})
	c.Must(t, &fsm.AllocClientUpdate{
		Allocs: []*alloc.Alloc{{ID: a.ID, Node: n.ID, ClientStatus: alloc.ClientComplete}},
	})
	c.Must(t, &fsm.NodeStatus{Nodes: []ids.Node{n.ID}, Status: node.StatusDown})
	for e := range c.Store.Snapshot().Evals(nil, "") {
		done := *e
		done.Status = eval.StatusComplete
		c.Must(t, &fsm.EvalUpdate{Evals: []*eval.Eval{&done}})
	}
	all := &collection.Collect{
		Allocs: []ids.Alloc{a.ID},
		Jobs:   []collection.JobName{{Namespace: ids.DefaultNamespace, Job: "db"}},
		Nodes:  []ids.Node{n.ID},
	}
	if got := c.Must(t, all).(collection.Collected); got != (collection.Collected{}) {
		t.Fatalf("collected beneath a claim: %+v", got)
	}
	k := volume.ClaimKey{Volume: v, Alloc: a.ID}
	if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.DeleteClaim(k)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := c.Must(t, all).(collection.Collected); got.Allocs != 1 || got.Jobs != 1 || got.Nodes != 1 {
		t.Errorf("collected %+v", got)
	}
	for range c.Store.Snapshot().AllJobVersions() {
		t.Error("a version of the forgotten job stays")
	}
}

// TestReplicasThatApplyTheSameLogAreEqual drives random commands through two machines, one of which lives through
// restores, and compares what they would write to disk.
func TestReplicasThatApplyTheSameLogAreEqual(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		log := randomLog(r)
		a, b := state.New(), state.New()
		fa, fb := fsm.New(a), fsm.New(b)
		cut := rapid.IntRange(0, len(log)).Draw(r, "cut")
		fa.ApplyBatch(log)
		fb.ApplyBatch(log[:cut])
		var half bytes.Buffer
		write, err := fb.Snapshot()
		if err != nil {
			r.Fatal(err)
		}
		if err := write(&half); err != nil {
			r.Fatal(err)
		}
		c := state.New()
		fc := fsm.New(c)
		if err := fc.Restore(&half); err != nil {
			r.Fatal(err)
		}
		for _, e := range log[cut:] {
			fb.ApplyBatch([]raftlog.Entry{e})
			fc.ApplyBatch([]raftlog.Entry{e})
		}
		want := bytesOf(r, a)
		if !bytes.Equal(want, bytesOf(r, b)) || !bytes.Equal(want, bytesOf(r, c)) {
			r.Fatal("the same log made different states")
		}
	})
}

func bytesOf(r *rapid.T, s *state.Store) []byte {
	var out bytes.Buffer
	if err := s.Snapshot().Persist(&out); err != nil {
		r.Fatal(err)
	}
	return out.Bytes()
}

// randomLog makes a log of commands over few jobs, nodes and volumes, so that they meet.
func randomLog(r *rapid.T) []raftlog.Entry {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1))
	nodes := []ids.Node{"n1", "n2"}
	jobs := []ids.Job{"a", "b"}
	cmds := []fsm.Command{&fsm.Bootstrap{ClusterID: "c", Incarnation: "i"}}
	known := []ids.Alloc{"x"}
	for i := range rapid.IntRange(5, 60).Draw(r, "length") {
		seed := fmt.Sprint(i)
		n, j := nodes[rng.IntN(2)], jobs[rng.IntN(2)]
		a := known[rng.IntN(len(known))]
		switch rng.IntN(9) {
		case 0:
			cmds = append(cmds,
				&fsm.NodeRegister{
					Node: &node.Node{ID: n, Name: seed, Attributes: map[string]string{"b": "1", "a": "2"}},
					Seed: seed,
				})
		case 1, 2:
			reg := aJob(j)
			reg.Priority, reg.Type = 50+rng.IntN(3), []string{job.TypeService, job.TypeSystem}[rng.IntN(2)]
			cmds = append(cmds, &fsm.JobRegister{Job: reg, Seed: seed, Submission: &job.Submission{Source: seed}})
		case 3:
			cmds = append(cmds, &fsm.JobDeregister{
				Namespace:       ids.DefaultNamespace,
				Job:             j,
				Purge:           rng.IntN(2) == 0,
				NoShutdownDelay: true,
				Seed:            seed,
			})
		case 4, 5:
			id := ids.Alloc("alloc" + seed)
			known = append(known, id)
			cmds = append(cmds,
				&fsm.PlanApply{
					Place: []*alloc.Alloc{{
						ID:             id,
						Namespace:      ids.DefaultNamespace,
						Job:            j,
						Node:           n,
						TaskGroup:      "g",
						JobCreateIndex: uint64(rng.IntN(10)),
						JobVersion:     uint64(rng.IntN(2)),
						PreviousAlloc:  a,
					}},
				})
		case 6:
			cmds = append(cmds,
				&fsm.AllocClientUpdate{
					Seed: seed,
					Allocs: []*alloc.Alloc{{
						ID:           a,
						Node:         n,
						ClientStatus: []string{"running", "failed", "complete"}[rng.IntN(3)],
					}},
				})
		case 7:
			cmds = append(cmds,
				&fsm.NodeStatus{
					Nodes:  nodes,
					Status: []string{node.StatusDown, node.StatusReady}[rng.IntN(2)],
					Seed:   seed,
				})
		case 8:
			cmds = append(cmds,
				&collection.Collect{
					Allocs: known,
					Jobs:   []collection.JobName{{Namespace: ids.DefaultNamespace, Job: j}},
					Nodes:  nodes,
				})
		}
	}
	var out []raftlog.Entry
	for i, c := range cmds {
		at := time.Unix(1700000000, int64(rng.IntN(1000))) // clocks that jump back and forth
		data, err := fsm.Encode(c, at)
		if err != nil {
			r.Fatal(err)
		}
		out = append(out, raftlog.Entry{Index: uint64(i + 1), Data: data})
	}
	return out
}

func TestTheStatesTimeNeverRunsBackwards(t *testing.T) {
	s := state.New()
	f := fsm.New(s)
	for i, at := range []int64{100, 50, 120} {
		data, err := fsm.Encode(&fsm.SecretPut{Name: "x"}, time.Unix(at, 0))
		if err != nil {
			t.Fatal(err)
		}
		f.ApplyBatch([]raftlog.Entry{{Index: uint64(i + 1), Data: data}})
		if want := max(at, 100); s.Snapshot().Stamp().Time.Unix() != want {
			t.Errorf("after %d the state's time is %s", at, s.Snapshot().Stamp().Time)
		}
	}
}

// Given a command in the log that panics, when machines apply it, then it is refused by name, nothing of it is in the
// state, whoever runs the server hears of it with the place, what follows is applied, and all have the same state.
func TestACommandThatPanicsChangesNothing(t *testing.T) {
	var saved [][]byte
	for range 2 {
		s := state.New()
		f := fsm.New(s)
		var heard []string
		f.OnPanic = func(index uint64, name string, err *lifecycle.PanicError) {
			heard = append(heard, fmt.Sprintf("%d %s %t", index, name, strings.Contains(err.Error(), "allocs.go")))
		}
		var results []any
		for i, cmd := range []fsm.Command{
			&fsm.SecretPut{Name: "before"},
			&fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{nil}},
			&fsm.SecretPut{Name: "after"},
		} {
			data, err := fsm.Encode(cmd, time.Unix(100, 0))
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, f.ApplyBatch([]raftlog.Entry{{Index: uint64(i + 1), Data: data}})[0])
		}
		err, _ := results[1].(error)
		if !fault.Has(err, fault.Internal) ||
			!strings.Contains(err.Error(), "log entry 2, alloc-client-update: panic") ||
			strings.Contains(err.Error(), "allocs.go") {
			t.Errorf("it is answered with %v", err)
		}
		if want := []string{"2 alloc-client-update true"}; !slices.Equal(heard, want) {
			t.Errorf("heard %q, want %q", heard, want)
		}
		snap := s.Snapshot()
		if snap.Stamp().Index != 3 || snap.Secret(nil, "before") == nil || snap.Secret(nil, "after") == nil {
			t.Errorf("the state is of %d and lacks secrets", snap.Stamp().Index)
		}
		write, err := f.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		var data bytes.Buffer
		if err := write(&data); err != nil {
			t.Fatal(err)
		}
		saved = append(saved, data.Bytes())
	}
	if !bytes.Equal(saved[0], saved[1]) {
		t.Error("two machines have two states")
	}
}

func TestAMachineThatMetWhatItDoesNotKnowHasNoSnapshot(t *testing.T) {
	f := fsm.New(state.New())
	if res := f.ApplyBatch([]raftlog.Entry{{Index: 1, Data: []byte("nonsense")}})[0]; res == nil {
		t.Fatal("nonsense was applied")
	}
	select {
	case <-f.Stopped():
	default:
		t.Error("nobody is woken")
	}
	if _, err := f.Snapshot(); err == nil {
		t.Error("a snapshot would hide the entry that was skipped")
	}
}

// Given a batch job of which one allocation has completed, one has failed and one runs, when it is registered again
// unchanged, then nothing is touched; when that is to run it again, then what has ended no longer counts, and what runs
// does.
func TestAJobIsRunAgainWhenThatIsAsked(t *testing.T) {
	c := localstate.New(t)
	j := aJob("sums")
	j.Type = job.TypeBatch
	register(t, c, j)
	n := aNode()
	c.Must(t, &fsm.NodeRegister{Node: n})
	allocs := map[string]ids.Alloc{}
	for _, status := range []string{alloc.ClientComplete, alloc.ClientFailed, alloc.ClientRunning} {
		allocs[status] = placed(t, c, "sums", n.ID)
		c.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{
			{ID: allocs[status], Node: n.ID, ClientStatus: status}}})
	}
	again := func(asked bool, desired string, forced bool) {
		t.Helper()
		c.Must(t, &fsm.JobRegister{Job: j, Again: asked, Seed: ids.New()})
		s := c.Store.Snapshot()
		done := s.Alloc(nil, allocs[alloc.ClientComplete])
		failed := s.Alloc(nil, allocs[alloc.ClientFailed])
		runs := s.Alloc(nil, allocs[alloc.ClientRunning])
		if done.DesiredStatus != desired || failed.ForceReschedule != forced || runs.ServerTerminal() {
			t.Errorf("again %t: %s, %t, %s", asked, done.DesiredStatus, failed.ForceReschedule, runs.DesiredStatus)
		}
	}
	again(false, alloc.DesiredRun, false)
	again(true, alloc.DesiredStop, true)
}
