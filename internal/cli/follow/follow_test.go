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

func (s story) follower(t *testing.T, evals []api.Evaluation) (*follow.Follower, *bytes.Buffer, *atomic.Int64) {
	t.Helper()
	reads := map[string]int{}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		id := strings.TrimPrefix(r.URL.Path, "/v1/evaluation/")
		index, _ := strconv.Atoi(r.URL.Query().Get("index"))
		w.Header().Set("X-Nomad-Index", strconv.Itoa(index+1))
		var out any = []any{}
		if strings.HasSuffix(r.URL.Path, "/evaluations") {
			out = evals
		}
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
	e := kit.New(nil, &out, &out, func(name string) string {
		return map[string]string{"BERTH_ADDR": server.URL}[name]
	}, nil, "")
	if err := e.Connect(); err != nil {
		t.Fatal(err)
	}
	f := follow.New(e, false, false)
	t.Cleanup(e.Close)
	return f, &out, &asked
}

func failed() map[string]*api.AllocationMetric {
	return map[string]*api.AllocationMetric{"g": {NodesEvaluated: 1, DimensionExhausted: map[string]int{"memory": 1}}}
}

// Given an evaluation that another continues, when it is followed, then both are, to the end.
func TestContinuedEvaluations(t *testing.T) {
	f, out, _ := story{"a": {{Status: "pending"}, {Status: "complete", NextEval: "b"}},
		"b": {{Status: "complete"}}}.follower(t, nil)
	e, err := f.Evaluation(t.Context(), "a", "")
	if err != nil || e.ID != "b" || !strings.Contains(out.String(), `Evaluation "b" continues it`) {
		t.Errorf("%+v %v %s", e, err, out)
	}
}

// Given allocations without a place, when an evaluation is followed, then that ends with its own code; whoever waits
// goes on until there is capacity.
func TestUnplaced(t *testing.T) {
	s := story{"a": {{Status: "complete", BlockedEval: "b", FailedTGAllocs: failed()}},
		"b": {{Status: "blocked"}, {Status: "complete"}}}
	f, out, _ := s.follower(t, nil)
	_, err := f.Evaluation(t.Context(), "a", "")
	var exit *kit.Exit
	if !errors.As(err, &exit) || exit.Code != kit.ExitUnplaced ||
		!strings.Contains(out.String(), "not enough memory on 1 node") {
		t.Errorf("%v %s", err, out)
	}
	f, out, _ = s.follower(t, nil)
	f.Wait = true
	if e, err := f.Evaluation(t.Context(), "a", ""); err != nil || e.ID != "b" ||
		!strings.Contains(out.String(), "Evaluation is now complete") {
		t.Errorf("%+v %v %s", e, err, out)
	}
}

// Given an evaluation that failed, when it is followed, then that is an error with the reason; one that was cancelled
// is followed to the newest that took its place, and is none.
func TestFailedAndCancelledEvaluations(t *testing.T) {
	f, _, _ := story{"a": {{Status: "failed", StatusDescription: "because"}}}.follower(t, nil)
	if _, err := f.Evaluation(t.Context(), "a", ""); err == nil || !strings.Contains(err.Error(), "failed: because") {
		t.Errorf("%v", err)
	}
	s := story{"a": {{Status: "complete", NextEval: "b", JobID: "j"}},
		"b": {{Status: "blocked", CreateIndex: 2, JobID: "j"}, {Status: "canceled", CreateIndex: 2, JobID: "j"}},
		"c": {{Status: "pending", CreateIndex: 4, JobID: "j"}, {Status: "complete", CreateIndex: 4, JobID: "j"}}}
	f, out, _ := s.follower(t,
		[]api.Evaluation{{ID: "b", CreateIndex: 2, Status: "canceled"}, {ID: "x", CreateIndex: 3, Status: "canceled"},
			{ID: "c", CreateIndex: 4, Status: "pending"}})
	if e, err := f.Evaluation(t.Context(), "a", ""); err != nil || e.ID != "c" ||
		!strings.Contains(out.String(), `Evaluation "c" took its place`) {
		t.Errorf("%+v %v %s", e, err, out)
	}
	f, _, _ = story{"a": {{Status: "canceled", CreateIndex: 2, JobID: "j"}}}.follower(t, nil)
	if e, err := f.Evaluation(t.Context(), "a", ""); err != nil || e.Status != "canceled" {
		t.Errorf("%+v %v", e, err)
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
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // runs out
	defer cancel()
	if _, err := f.Evaluation(ctx, "a", ""); err == nil || !strings.Contains(err.Error(), "no longer following") {
		t.Errorf("%v", err)
	}
	if n := asked.Load(); n > 3 {
		t.Errorf("asked %d times", n)
	}
}

// Given a job that somebody changes, stops or purges while it is followed, then that is how the following ends.
func TestTheFollowedVersionIsNoLongerTheJobs(t *testing.T) {
	index := func(n uint64) *uint64 { return &n }
	yes := true
	for want, job := range map[string]*api.Job{
		"changed again, to version 7": {JobModifyIndex: index(13), Version: index(7)},
		"was stopped before":          {JobModifyIndex: index(13), Stop: &yes},
		"somebody has purged it":      nil,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/allocations"), strings.HasSuffix(r.URL.Path, "/deployments"):
				_, _ = w.Write([]byte("[]"))
			case strings.HasPrefix(r.URL.Path, "/v1/evaluation/"):
				_ = json.NewEncoder(w).Encode(api.Evaluation{ID: "a", Status: "complete"})
			case job == nil:
				w.WriteHeader(http.StatusNotFound)
			case !strings.HasSuffix(r.URL.Path, "/rollout"):
				w.WriteHeader(http.StatusInternalServerError)
			default:
				_ = json.NewEncoder(w).Encode(api.JobRollout{Job: job})
			}
		}))
		defer server.Close()
		var out bytes.Buffer
		e := kit.New(nil, &out, &out, func(name string) string {
			return map[string]string{"BERTH_ADDR": server.URL}[name]
		}, nil, "")
		if err := e.Connect(); err != nil {
			t.Fatal(err)
		}
		f := follow.New(e, false, false)
		defer e.Close()
		err := f.Job(t.Context(), follow.Registered{Ref: kit.Ref{ID: "j"}, JobModifyIndex: 12, Eval: "a"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Given an agent that is away for a moment, when it is followed, then the following goes on; one that never answered is
// not waited for.
func TestAnAgentThatRestartsIsWaitedFor(t *testing.T) {
	var reads atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v1/evaluation/") || strings.HasSuffix(r.URL.Path, "/allocations") {
			w.Header().Set("X-Nomad-Index", "9")
			_, _ = w.Write([]byte("[]"))
			return
		}
		status := "pending"
		switch n := reads.Add(1); {
		case n == 2 || n == 3:
			panic(http.ErrAbortHandler) // the connection is lost
		case n > 3:
			status = "complete"
		}
		w.Header().Set("X-Nomad-Index", strconv.FormatInt(5+reads.Load(), 10))
		if err := json.NewEncoder(w).Encode(api.Evaluation{ID: "a", Status: status}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	e := kit.New(nil, &out, &out, func(name string) string {
		return map[string]string{"BERTH_ADDR": server.URL}[name]
	}, nil, "")
	t.Cleanup(e.Close)
	if err := e.Connect(); err != nil {
		t.Fatal(err)
	}
	f := follow.New(e, false, false)
	if got, err := f.Evaluation(t.Context(), "a", ""); err != nil || got.Status != "complete" {
		t.Errorf("%+v, %v, after %d reads", got, err, reads.Load())
	}
	server.Close()
	var gone *api.UnreachableError
	if _, err := f.Evaluation(t.Context(), "a", ""); !errors.As(err, &gone) {
		t.Errorf("an agent that never answered: %v", err)
	}
}
