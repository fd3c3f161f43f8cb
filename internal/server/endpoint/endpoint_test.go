package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

func endpoints(t testing.TB) (*Endpoints, *localstate.Cluster) {
	t.Helper()
	c := localstate.New(t)
	return New(Config{
		Store:      c.Store,
		Proposer:   c,
		Heartbeats: leader.Alone{},
		Cluster:    leader.Alone{},
		Log:        slog.New(slog.DiscardHandler),
	}), c
}

func mounting(driver string) *job.Job {
	return &job.Job{
		Namespace: ids.DefaultNamespace,
		ID:        "db",
		Type:      job.TypeService,
		Priority:  50,
		TaskGroups: []*job.TaskGroup{{
			Name: "data", Count: 1, Volumes: map[string]*job.VolumeRequest{"store": {
				Name:   "store",
				Type:   job.VolumeTypeCSI,
				Source: "vol1",
			}},
			Tasks: []*job.Task{{
				Name:         "redis",
				Driver:       driver,
				VolumeMounts: []*job.VolumeMount{{Volume: "store", Destination: "/data"}},
			}},
		}},
	}
}

func nodeWith(drivers map[string]*node.Driver) *node.Node {
	return &node.Node{ID: ids.Node(ids.New()), Name: "n", Drivers: drivers}
}

func healthy(noMounts bool) *node.Driver {
	return &node.Driver{Detected: true, Healthy: true, NoMounts: noMounts}
}

func TestAJobWhoseDriverCannotMountIsRefusedAtSubmit(t *testing.T) {
	e, c := endpoints(t)
	submit := func() (*wire.JobRegisterReply, error) {
		return e.jobRegister(t.Context(), &wire.JobRegisterRequest{Job: mounting("raw_exec")})
	}
	done, err := submit()
	if err != nil || len(done.Warnings) != 1 || !strings.Contains(done.Warnings[0], `"raw_exec"`) {
		t.Fatalf("without any node: %v, %v", done, err)
	}
	c.Must(t, &fsm.NodeRegister{Node: nodeWith(map[string]*node.Driver{"raw_exec": healthy(true)})})
	_, err = submit()
	if !fault.Has(err, fault.Invalid) {
		t.Fatalf("with a node that can't: %v", err)
	}
	for _, word := range []string{`"db"`, `"data"`, `"redis"`, `"raw_exec"`, `"store"`, "exec"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal does not name %s: %v", word, err)
		}
	}
	able := nodeWith(map[string]*node.Driver{"raw_exec": healthy(false)})
	c.Must(t, &fsm.NodeRegister{Node: able})
	if done, err = submit(); err != nil || len(done.Warnings) != 0 {
		t.Errorf("with one node that can: %+v, %v", done, err)
	}
	c.Must(t, &fsm.NodeEligibility{Node: able.ID, Eligibility: node.Ineligible})
	if _, err = submit(); !fault.Has(err, fault.Invalid) {
		t.Errorf("when the node that can takes nothing: %v", err)
	}
}

func TestAJobNeedsANameAndANamespaceThatExist(t *testing.T) {
	e, _ := endpoints(t)
	for _, tc := range []struct {
		job  *job.Job
		kind fault.Kind
	}{
		{nil, fault.Invalid},
		{&job.Job{ID: "a"}, fault.Invalid},
		{&job.Job{ID: "a", Namespace: "*"}, fault.Invalid},
		{&job.Job{ID: "../x", Namespace: "default"}, fault.Invalid},
		{&job.Job{ID: "a\x00", Namespace: "default"}, fault.Invalid},
		{&job.Job{ID: ids.Job(strings.Repeat("x", 300)), Namespace: "default"}, fault.Invalid},
		{&job.Job{ID: "a", Namespace: "nowhere"}, fault.NotFound},
	} {
		if _, err := e.jobRegister(t.Context(), &wire.JobRegisterRequest{Job: tc.job}); !fault.Has(err, tc.kind) {
			t.Errorf("%+v: %v", tc.job, err)
		}
		reply, err := e.jobValidate(t.Context(), &wire.JobValidateRequest{Job: tc.job})
		if err != nil || len(reply.Errors) != 1 {
			t.Errorf("validating %+v: %+v, %v", tc.job, reply, err)
		}
	}
}

func TestPagesFollowEachOtherWithoutGapsEvenWhenObjectsGo(t *testing.T) {
	e, c := endpoints(t)
	var want []string
	for i := range 25 {
		id := ids.Job(fmt.Sprintf("job-%02d", i))
		c.Must(t, &fsm.JobRegister{
			Job:  &job.Job{Namespace: ids.DefaultNamespace, ID: id, Type: job.TypeService},
			Seed: ids.New(),
		})
		want = append(want, string(id))
	}
	for _, reverse := range []bool{false, true} {
		var got []string
		q := &wire.Query{Namespace: wire.AllNamespaces, Page: wire.Page{PerPage: 10, Reverse: reverse}}
		for pages := 0; pages == 0 || q.NextToken != ""; pages++ {
			reply, err := e.jobList(t.Context(), q)
			if err != nil || pages > 3 {
				t.Fatal(err, pages)
			}
			for _, v := range reply.Items {
				got = append(got, string(v.Job.ID))
			}
			q.NextToken = reply.NextToken
		}
		if slices.Reverse(want); !reverse {
			slices.Reverse(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("reverse %v: %v", reverse, got)
		}
	}
	q := &wire.Query{Namespace: ids.DefaultNamespace, Prefix: "job-0", Page: wire.Page{PerPage: 5}}
	first, err := e.jobList(t.Context(), q)
	if err != nil || first.NextToken != "default.job-05" {
		t.Fatalf("next page is %q, %v", first.NextToken, err)
	}
	c.Must(t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: "job-05", Purge: true, Seed: ids.New()})
	q.NextToken = first.NextToken
	second, err := e.jobList(t.Context(), q)
	if err != nil || len(second.Items) != 4 || second.Items[0].Job.ID != "job-06" {
		t.Errorf("after the first of the page was purged: %d jobs, %v", len(second.Items), err)
	}
}

func TestASearchFindsByPrefixAndSaysWhenItLeavesOut(t *testing.T) {
	e, c := endpoints(t)
	for i := range 25 {
		c.Must(t, &fsm.JobRegister{
			Job: &job.Job{
				Namespace: ids.DefaultNamespace,
				ID:        ids.Job(fmt.Sprintf("web%02d", i)),
				Type:      job.TypeService,
			},
			Seed: ids.New(),
		})
	}
	got, err := e.search(t.Context(),
		&wire.SearchRequest{Namespace: ids.DefaultNamespace, Prefix: "web", Context: "all"})
	if err != nil || len(got.Matches["jobs"]) != 20 || !got.Truncations["jobs"] || len(got.Matches["nodes"]) != 0 {
		t.Errorf("%d jobs, truncated %v, %v", len(got.Matches["jobs"]), got.Truncations, err)
	}
	got, err = e.search(t.Context(),
		&wire.SearchRequest{Namespace: ids.DefaultNamespace, Prefix: "web2", Context: "jobs"})
	if err != nil || len(got.Matches) != 1 || len(got.Matches["jobs"]) != 5 || got.Truncations["jobs"] {
		t.Errorf("%+v, %v", got, err)
	}
}

// Given kinds that clients search for and of which there is nothing yet, then nothing is found; a kind that nobody
// knows is refused.
func TestASearchOfWhatThereIsNotYetFindsNothing(t *testing.T) {
	e, _ := endpoints(t)
	for _, kind := range []string{"deployment", "host_volumes", "quotas", "recommendations", "scaling_policy", "vars"} {
		got, err := e.search(t.Context(), &wire.SearchRequest{Namespace: ids.DefaultNamespace, Context: kind})
		truncated, said := got.Truncations[kind]
		if err != nil || len(got.Matches) != 1 || len(got.Matches[kind]) != 0 || !said || truncated {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
	}
	got, err := e.search(t.Context(), &wire.SearchRequest{Namespace: ids.DefaultNamespace, Context: "node_pools",
		Prefix: "def"})
	if err != nil || !slices.Equal(got.Matches["node_pools"], []string{"default"}) {
		t.Errorf("the pools that begin with def: %+v, %v", got, err)
	}
	_, err = e.search(t.Context(), &wire.SearchRequest{Namespace: ids.DefaultNamespace, Context: "tapes"})
	if err == nil || !strings.Contains(err.Error(), `got "tapes"`) {
		t.Errorf("tapes: %v", err)
	}
}

func TestReadsOfNothingAnswerWithAnIndex(t *testing.T) {
	e, _ := endpoints(t)
	j, err := e.jobGet(t.Context(), &wire.Ref[ids.Job]{Query: wire.Query{Namespace: ids.DefaultNamespace}, ID: "none"})
	if err != nil || j.Item != nil || j.Index == 0 || !j.KnownLeader {
		t.Errorf("%+v, %v", j, err)
	}
	a, err := e.jobAllocs(t.Context(),
		&wire.JobAllocsRequest{Query: wire.Query{Namespace: ids.DefaultNamespace}, Job: "none"})
	if err != nil || len(a.Items) != 0 || a.Index == 0 {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := e.jobDeregister(t.Context(),
		&wire.JobDeregisterRequest{Namespace: ids.DefaultNamespace, Job: "none"}); !fault.Has(err, fault.NotFound) {
		t.Errorf("stopping what is not there: %v", err)
	}
	if _, err := e.allocStop(t.Context(), &wire.AllocStopRequest{Alloc: "none"}); !fault.Has(err, fault.NotFound) {
		t.Errorf("stopping an alloc that is not there: %v", err)
	}
}

// Given an alloc of a job whose node has lost its record, then the list of the job's allocs says so, and what a person
// can do; of another alloc it says nothing.
func TestAllocsOfAJobNameTheirOrphans(t *testing.T) {
	const kept, other = "4f02aa10-0000-4000-8000-000000000002", "77c0ffee-0000-4000-8000-000000000003"
	e, c := endpoints(t)
	stamp := c.Store.Snapshot().Stamp()
	stamp.Index++
	err := c.Store.Write(stamp, func(tx *state.Tx) error {
		tx.PutJob(mounting("exec"))
		n := nodeWith(nil)
		n.Orphans = []node.Orphan{{Alloc: kept, Reason: "its record is lost"}}
		tx.PutNode(n)
		for _, id := range []ids.Alloc{kept, other} {
			j := tx.Job(nil, ids.DefaultNamespace, "db")
			tx.PutAlloc(&alloc.Alloc{
				ID:             id,
				Namespace:      j.Namespace,
				Job:            j.ID,
				JobCreateIndex: j.CreateIndex,
				TaskGroup:      "data",
				Node:           n.ID,
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.jobAllocs(t.Context(),
		&wire.JobAllocsRequest{Query: wire.Query{Namespace: ids.DefaultNamespace}, Job: "db"})
	if err != nil || len(out.Items) != 2 || len(out.Orphans) != 1 ||
		!strings.Contains(out.Orphans[kept], "berth node orphans end "+ids.Short(kept)) {
		t.Errorf("%+v, %v", out, err)
	}
}

// Whoever calls the servers past the HTTP surface is held to the bounds too, and to those of counts that are kept.
func TestAJobBeyondABoundIsRefused(t *testing.T) {
	e, c := endpoints(t)
	sized := func(count int) *job.Job {
		j := mounting("exec")
		j.TaskGroups[0].Count = count
		j.TaskGroups[0].Volumes = nil
		j.TaskGroups[0].Tasks[0].VolumeMounts = nil
		return j
	}
	refused := func(what string, err error) {
		t.Helper()
		if !fault.Has(err, fault.Invalid) ||
			!strings.Contains(err.Error(),
				`group "data": count 2000000000 exceeds the bound of 100000 allocs of one job`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, j := range []*job.Job{sized(-5), {ID: "j", Namespace: "default", TaskGroups: []*job.TaskGroup{nil}}} {
		if _, err := e.jobRegister(t.Context(), &wire.JobRegisterRequest{Job: j}); !fault.Has(err, fault.Invalid) {
			t.Errorf("a misshapen job is registered: %v", err)
		}
	}
	_, err := e.jobRegister(t.Context(), &wire.JobRegisterRequest{Job: sized(2_000_000_000)})
	refused("register", err)
	e.cfg.Planner = noPlanner{}
	_, err = e.jobPlan(t.Context(), &wire.JobPlanRequest{Job: sized(2_000_000_000)})
	refused("plan", err)
	if v, err := e.jobValidate(t.Context(), &wire.JobValidateRequest{Job: sized(2_000_000_000)}); err != nil ||
		len(v.Errors) != 1 || !strings.Contains(v.Errors[0], "2000000000") {
		t.Errorf("validate: %+v, %v", v, err)
	}
	c.Must(t, &fsm.JobRegister{Job: sized(2_000_000_000), Seed: ids.New()}) // by a version that had no bounds
	_, err = e.jobRegister(t.Context(), &wire.JobRegisterRequest{Job: sized(1), PreserveCounts: true})
	refused("register with the present counts", err)
	if _, err := e.jobRegister(t.Context(), &wire.JobRegisterRequest{Job: sized(1)}); err != nil {
		t.Errorf("with a count of 1: %v", err)
	}
	if _, err := e.jobRegister(t.Context(), &wire.JobRegisterRequest{Job: sized(2), PreserveCounts: true}); err != nil {
		t.Errorf("with the present count of 1: %v", err)
	}
}

// noPlanner must not be asked.
type noPlanner struct{}

func (noPlanner) DryRun(context.Context, *wire.JobPlanRequest) (*wire.JobPlanReply, error) {
	return nil, fault.New(fault.Internal, "plan", "", "the planner was asked")
}
