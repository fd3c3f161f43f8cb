package follow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/api"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// story answers reads of evaluations chapter by chapter; the last chapter stays.
type story map[string][]api.Evaluation

func (s story) follower(t *testing.T, allocs []*api.AllocationListStub) (*follow.Follower, *bytes.Buffer, *atomic.Int64) {
	t.Helper()
	reads := map[string]int{}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		id := strings.TrimPrefix(r.URL.Path, "/v1/evaluation/")
		index, _ := strconv.Atoi(r.URL.Query().Get("index"))
		w.Header().Set("X-Nomad-Index", strconv.Itoa(index+1))
		var out any = allocs
		if chapters := s[id]; chapters != nil {
			e := chapters[min(reads[id], len(chapters)-1)]
			e.ID = id
			reads[id]++
			out = e
		}
		if err := json.NewEncoder(w).Encode(out); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	e := kit.New(nil, &out, &out, func(name string) string { return map[string]string{"BERTH_ADDR": server.URL}[name] }, nil, "")
	f, err := follow.New(e, false, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return f, &out, &asked
}

func failed() map[string]*api.AllocationMetric {
	return map[string]*api.AllocationMetric{"g": {NodesEvaluated: 1, DimensionExhausted: map[string]int{"memory": 1}}}
}

// Given an evaluation that another continues, when it is followed, then both are, to the end.
func TestContinuedEvaluations(t *testing.T) {
	f, out, _ := story{"a": {{Status: "pending"}, {Status: "complete", NextEval: "b"}}, "b": {{Status: "complete"}}}.follower(t, nil)
	e, err := f.Evaluation(t.Context(), "a", "")
	if err != nil || e.ID != "b" || !strings.Contains(out.String(), `Evaluation "b" continues it`) {
		t.Errorf("%+v %v %s", e, err, out)
	}
}

// Given allocations without a place, when an evaluation is followed, then that ends with its own code; whoever waits goes
// on until there is room.
func TestUnplaced(t *testing.T) {
	s := story{"a": {{Status: "complete", BlockedEval: "b", FailedTGAllocs: failed()}}, "b": {{Status: "blocked"}, {Status: "complete"}}}
	f, out, _ := s.follower(t, nil)
	_, err := f.Evaluation(t.Context(), "a", "")
	var exit *kit.Exit
	if !errors.As(err, &exit) || exit.Code != kit.ExitUnplaced || !strings.Contains(out.String(), "not enough memory on 1 node") {
		t.Errorf("%v %s", err, out)
	}
	f, out, _ = s.follower(t, nil)
	f.Wait = true
	if e, err := f.Evaluation(t.Context(), "a", ""); err != nil || e.ID != "b" || !strings.Contains(out.String(), "Evaluation is now complete") {
		t.Errorf("%+v %v %s", e, err, out)
	}
}

// Given evaluations that fail or are cancelled, when they are followed, then that is an error with the reason.
func TestFailedEvaluations(t *testing.T) {
	for _, status := range []string{"failed", "canceled"} {
		f, _, _ := story{"a": {{Status: status, StatusDescription: "because"}}}.follower(t, nil)
		if _, err := f.Evaluation(t.Context(), "a", ""); err == nil || !strings.Contains(err.Error(), status+": because") {
			t.Errorf("%s: %v", status, err)
		}
	}
}

// Given an agent that does not block, when it has nothing new to say, then it is not asked in a hot loop.
func TestNoHotLoop(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_ = json.NewEncoder(w).Encode(api.Evaluation{ID: "a", Status: "pending"})
	}))
	defer server.Close()
	var out bytes.Buffer
	e := kit.New(nil, &out, &out, func(string) string { return "" }, nil, "")
	c, err := api.NewClient(api.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	f := &follow.Follower{Env: e, Client: c}
	ctx, cancel := timeout(t, 300*time.Millisecond)
	defer cancel()
	if _, err := f.Evaluation(ctx, "a", ""); err == nil || !strings.Contains(err.Error(), "no longer following") {
		t.Errorf("%v", err)
	}
	if n := asked.Load(); n > 3 {
		t.Errorf("asked %d times", n)
	}
}

// Given allocations, when they are followed, then each ends the story in its own way.
func TestVerdicts(t *testing.T) {
	eval := &api.Evaluation{ID: "a", CreateIndex: 5}
	old := []*api.TaskEvent{{Type: "Started", Time: 1, DisplayMessage: "long ago"}}
	stub := func(id, desired, status string, index uint64) *api.AllocationListStub {
		return &api.AllocationListStub{ID: id, EvalID: "a", Name: id, DesiredStatus: desired, ClientStatus: status, CreateIndex: index,
			TaskStates: map[string]*api.TaskState{"t": {Events: old}}}
	}
	for name, c := range map[string]struct {
		allocs []*api.AllocationListStub
		want   string // of the output
		fails  string
	}{
		"nothing":    {nil, `Job "j" has nothing to run`, ""},
		"all run":    {[]*api.AllocationListStub{stub("x", "run", "running", 6), stub("y", "run", "running", 6)}, `Job "j" runs: 2 allocations`, ""},
		"done":       {[]*api.AllocationListStub{stub("x", "run", "complete", 6)}, `Job "j" has completed`, ""},
		"both":       {[]*api.AllocationListStub{stub("x", "run", "complete", 6), stub("y", "run", "running", 6)}, `runs: 1 allocation, 1 complete`, ""},
		"lost":       {[]*api.AllocationListStub{stub("x", "run", "lost", 6), stub("y", "run", "running", 6)}, "", "1 of 2 allocations"},
		"old ones":   {[]*api.AllocationListStub{stub("x", "stop", "failed", 1), stub("y", "run", "running", 1)}, `runs: 1 allocation`, ""},
		"superseded": {[]*api.AllocationListStub{stub("x", "stop", "complete", 6)}, `Job "j" has nothing to run`, ""},
	} {
		f, out, _ := story{}.follower(t, c.allocs)
		err := f.Allocations(t.Context(), kit.Ref{ID: "j"}, eval)
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v %s", name, err, out)
		}
		if name == "old ones" && strings.Contains(out.String(), "long ago") {
			t.Errorf("old events are told again: %s", out)
		}
	}
}

func timeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
