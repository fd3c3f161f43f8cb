package deploying_test

import (
	"slices"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/server/deploying"
	"berth/internal/server/state"
)

// write makes a state of what a story puts into it.
func write(t *testing.T, put func(tx *state.Tx)) *state.Store {
	t.Helper()
	s := state.New()
	change(t, s, 1, put)
	return s
}

func change(t *testing.T, s *state.Store, index uint64, put func(tx *state.Tx)) {
	t.Helper()
	err := s.Write(state.Stamp{Index: index, Time: time.Unix(1, 0)}, func(tx *state.Tx) error {
		put(tx)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// web is a version of the job that was created at an index.
func web(create, version uint64, edit ...func(*job.Job)) *job.Job {
	j := &job.Job{
		Namespace:   ids.DefaultNamespace,
		ID:          "web",
		Type:        job.TypeService,
		Version:     version,
		CreateIndex: create,
		TaskGroups:  []*job.TaskGroup{{Name: "g", Count: 3}},
	}
	for _, e := range edit {
		e(j)
	}
	return j
}

func stable(j *job.Job)  { j.Stable = true }
func stopped(j *job.Job) { j.Stop = true }

// of is the deployment of a version.
func of(j *job.Job) *deployment.Deployment {
	return &deployment.Deployment{
		ID:             deployment.IDOf(j.Namespace, j.ID, j.CreateIndex, j.Version),
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobCreateIndex: j.CreateIndex,
		JobVersion:     j.Version,
		Status:         deployment.Running,
		Groups:         map[string]*deployment.Group{"g": {DesiredTotal: 3, DesiredCanaries: 1}},
	}
}

// placed is an alloc of a version and its deployment.
func placed(id string, j *job.Job, edit ...func(*alloc.Alloc)) *alloc.Alloc {
	a := &alloc.Alloc{
		ID:             ids.Alloc(id),
		Namespace:      j.Namespace,
		Job:            j.ID,
		JobVersion:     j.Version,
		JobCreateIndex: j.CreateIndex,
		TaskGroup:      "g",
		Node:           "n",
		Deployment:     of(j).ID,
		Health:         &alloc.Health{Healthy: true, Index: 1},
	}
	for _, e := range edit {
		e(a)
	}
	return a
}

func canary(a *alloc.Alloc) { a.Canary = true }

// TestAPromotionIsOfItsOwnCanaries: those of another version's deployment stay what they are.
func TestAPromotionIsOfItsOwnCanaries(t *testing.T) {
	before, now := web(7, 1), web(7, 2)
	s := write(t, func(tx *state.Tx) {
		tx.PutDeployment(of(now))
		tx.PutAlloc(placed("old", before, canary))
		tx.PutAlloc(placed("new", now, canary))
	})
	change(t, s, 2, func(tx *state.Tx) { deploying.Promote(tx, of(now), []string{"g"}) })
	snap := s.Snapshot()
	if !snap.Alloc(nil, "old").Canary || snap.Alloc(nil, "new").Canary {
		t.Errorf("canary is what another deployment tries: %v; what was promoted: %v",
			snap.Alloc(nil, "old").Canary, snap.Alloc(nil, "new").Canary)
	}
	g := snap.Deployment(nil, of(now).ID).Groups["g"]
	if !g.Promoted || !slices.Equal(g.Canaries, []ids.Alloc{"new"}) {
		t.Errorf("the deployment remembers %+v", g)
	}
}

// TestWhatIsGoneBackTo is the newest stable version before the one that fails, of the same job, that was not the end of
// it; and nothing, when people have decided otherwise meanwhile.
func TestWhatIsGoneBackTo(t *testing.T) {
	differ := func(a, b *job.Job) bool { return a.Version == b.Version }
	for name, c := range map[string]struct {
		now      *job.Job
		versions []*job.Job
		want     uint64
		why      string
	}{
		"the newest":                {web(7, 3), []*job.Job{web(7, 0, stable), web(7, 1, stable), web(7, 2)}, 1, ""},
		"not the end of the job":    {web(7, 3), []*job.Job{web(7, 1, stable), web(7, 2, stable, stopped)}, 1, ""},
		"none is stable":            {web(7, 3), []*job.Job{web(7, 1), web(7, 2)}, 0, "no version before it is stable"},
		"not a later one":           {web(7, 3), []*job.Job{web(7, 3, stable)}, 0, "no version before it is stable"},
		"another version came":      {web(7, 4), []*job.Job{web(7, 1, stable)}, 0, "the job has moved on"},
		"the job was stopped":       {web(7, 3, stopped), []*job.Job{web(7, 1, stable)}, 0, "the job has moved on"},
		"purged, and another began": {web(9, 3), []*job.Job{web(9, 1, stable)}, 0, "the job has moved on"},
		"purged":                    {nil, nil, 0, "the job has moved on"},
	} {
		t.Run(name, func(t *testing.T) {
			s := state.New()
			if c.now != nil {
				change(t, s, c.now.CreateIndex, func(tx *state.Tx) { tx.PutJob(c.now) })
			}
			change(t, s, 10, func(tx *state.Tx) {
				for _, v := range c.versions {
					tx.PutJobVersion(v)
				}
			})
			got, why := deploying.Target(s.Snapshot(), of(web(7, 3)), differ)
			if why != c.why || (got == nil) != (c.why != "") || got != nil && got.Version != c.want {
				t.Errorf("it goes back to %+v, %q; want version %d, %q", got, why, c.want, c.why)
			}
		})
	}
}

// TestWhatADeploymentCounts: of its own version what runs and is healthy; of every other, a job of the same name that
// was purged included, that it is old. What a system job wants is said by the nodes.
func TestWhatADeploymentCounts(t *testing.T) {
	now := web(7, 2)
	system := web(7, 2, func(j *job.Job) { j.Type = job.TypeSystem })
	put := func(j *job.Job) *state.Store {
		return write(t, func(tx *state.Tx) {
			tx.PutJobVersion(j)
			tx.PutAlloc(placed("a", j))
			tx.PutAlloc(placed("b", j, canary))
			tx.PutAlloc(placed("c", web(7, 1)))
			tx.PutAlloc(placed("d", web(5, 2))) // of the purged job, which had a version 2 too
		})
	}
	want := deployment.GroupFacts{
		Want:    3,
		Here:    1,
		Healthy: 1,
		Tried:   1,
		Old:     2,
		Mark:    1,
	}
	if got := deploying.FactsOf(put(now).Snapshot(), of(now)).Groups["g"]; got != want {
		t.Errorf("it counts %+v, want %+v", got, want)
	}
	want.Want = 0
	if got := deploying.FactsOf(put(system).Snapshot(), of(system)).Groups["g"]; got != want {
		t.Errorf("of a system job it counts %+v, want %+v", got, want)
	}
}

// TestAGroupIsBehind while an alloc that should run is of another version than the job's present one, or of the job of
// the same name that was purged, whose versions were counted from nought too; canaries are such allocs, and what is to
// end and what other groups have are none.
func TestAGroupIsBehind(t *testing.T) {
	now := web(7, 2)
	ends := func(a *alloc.Alloc) { a.DesiredStatus = alloc.DesiredStop }
	elsewhere := func(a *alloc.Alloc) { a.TaskGroup = "h" }
	for name, c := range map[string]struct {
		other *alloc.Alloc
		want  bool
	}{
		"all are of the present version": {placed("b", now), false},
		"an older version":               {placed("b", web(7, 1)), true},
		"a canary of an older version":   {placed("b", web(7, 1), canary), true},
		"the purged job's version 2":     {placed("b", web(5, 2)), true},
		"it is to end":                   {placed("b", web(7, 1), ends), false},
		"another group's":                {placed("b", web(7, 1), elsewhere), false},
	} {
		s := write(t, func(tx *state.Tx) {
			tx.PutAlloc(placed("a", now))
			tx.PutAlloc(c.other)
		})
		if got := deploying.Behind(s.Snapshot(), now, "g"); got != c.want {
			t.Errorf("%s: behind is %v, want %v", name, got, c.want)
		}
	}
}

// TestWhatStorageIsWaitedFor is said by evaluations that still wait; one that is over says how it was.
func TestWhatStorageIsWaitedFor(t *testing.T) {
	now := web(7, 2)
	asks := func(id, status, storage string) *eval.Eval {
		return &eval.Eval{
			ID:             ids.Eval(id),
			Namespace:      now.Namespace,
			Job:            now.ID,
			Status:         status,
			FailedTGAllocs: map[string]*alloc.Metric{"g": {Storage: storage}},
		}
	}
	explained := func(all ...*eval.Eval) string {
		s := write(t, func(tx *state.Tx) {
			tx.PutJobVersion(now)
			for _, e := range all {
				tx.PutEval(e)
			}
		})
		f := deploying.FactsOf(s.Snapshot(), of(now))
		deploying.Explain(s.Snapshot(), f)
		return f.Groups["g"].Storage
	}
	over := []*eval.Eval{
		asks("a", eval.StatusComplete, "was"),
		asks("b", eval.StatusFailed, "was"),
		asks("c", eval.StatusCanceled, "was"),
	}
	if got := explained(over...); got != "" {
		t.Errorf("evaluations that are over say %q", got)
	}
	over = append(over, asks("d", eval.StatusBlocked, "volume v is in use"))
	if got := explained(over...); got != "volume v is in use" {
		t.Errorf("one that waits says %q", got)
	}
}

// TestADeploymentIsOneAtATime: of a job that has some, the one that is not over is the one that is under way.
func TestADeploymentIsOneAtATime(t *testing.T) {
	s := write(t, func(tx *state.Tx) {
		tx.PutDeployment(of(web(7, 1)).With(deployment.Failed, deployment.WhyLate))
		tx.PutDeployment(of(web(7, 2)).With(deployment.Paused, deployment.WhyPaused))
	})
	if d := deploying.Active(s.Snapshot(), nil, ids.DefaultNamespace, "web"); d == nil || d.JobVersion != 2 {
		t.Errorf("under way is %+v", d)
	}
	if d := deploying.Active(s.Snapshot(), nil, ids.DefaultNamespace, "other"); d != nil {
		t.Errorf("of another job it is %+v", d)
	}
}

// TestADeploymentOfAJobThatHasMovedOnIsOver: also what a plan begins that was made before the job was stopped or
// changed.
func TestADeploymentOfAJobThatHasMovedOnIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		now         *job.Job
		status, why string
	}{
		"it is the present one": {web(1, 1), deployment.Running, ""},
		"the job is stopped":    {web(1, 1, stopped), deployment.Cancelled, deployment.WhyStopped},
		"a newer version":       {web(1, 2), deployment.Cancelled, deployment.WhyNewer},
		"the job is gone":       {nil, deployment.Cancelled, deployment.WhyStopped},
	} {
		d := of(web(1, 1))
		s := write(t, func(tx *state.Tx) {
			if c.now != nil {
				tx.PutJob(c.now)
			}
		})
		change(t, s, 9, func(tx *state.Tx) { deploying.Begin(tx, d) })
		got := s.Snapshot().Deployment(nil, d.ID)
		if got == nil || got.Status != c.status || got.StatusDescription != c.why {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
