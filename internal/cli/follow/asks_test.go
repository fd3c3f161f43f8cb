package follow_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"berth/api"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// TestAJobThatIsAsWantedIsAskedForOnce: given a job that is as wanted already, when it is followed from a registration
// that changed nothing, then its evaluation is asked for when there is news of it, and after that, once, how far it is.
func TestAJobThatIsAsWantedIsAskedForOnce(t *testing.T) {
	want := []string{"/v1/evaluation/e?index=5", "/v1/job/j/rollout?index="}
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := any(&api.JobRollout{Job: &api.Job{ID: new("j"), Type: new("service"), JobModifyIndex: new(uint64(3))}})
		if strings.HasSuffix(r.URL.Path, "/evaluation/e") {
			out = &api.Evaluation{ID: "e", Status: api.EvalStatusComplete, JobID: "j", CreateIndex: 5}
		}
		mu.Lock()
		asked = append(asked, r.URL.Path+"?index="+r.URL.Query().Get("index"))
		mu.Unlock()
		w.Header().Set("X-Nomad-Index", "7")
		if err := json.NewEncoder(w).Encode(out); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	var out strings.Builder
	e := kit.New(nil, &out, &out, func(name string) string {
		return map[string]string{"BERTH_ADDR": server.URL}[name]
	}, nil, "")
	if err := e.Connect(); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	err := follow.New(e, false, false).Job(t.Context(), follow.Registered{
		Ref:            kit.Ref{ID: "j"},
		JobModifyIndex: 3,
		Eval:           "e",
		EvalIndex:      5,
	})
	if err != nil || !slices.Equal(asked, want) {
		t.Errorf("%v; asked for %q, want %q\n%s", err, asked, want, out.String())
	}
}
