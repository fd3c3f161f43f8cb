package follow_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"berth/api"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// Given a job that is as wanted already, when it is followed from a registration that changed nothing, then each thing
// is asked for once, and the evaluation when there is news of it. Given something newer among what is asked for after
// the job, then the job is read again.
func TestAJobThatIsAsWantedIsAskedForOnce(t *testing.T) {
	const evaluation = "/v1/evaluation/e?index=5"
	once := []string{
		evaluation, "/v1/job/j", "/v1/job/j/allocations", "/v1/job/j/deployment", "/v1/job/j/evaluations?open=true",
	}
	for name, c := range map[string]struct {
		allocations int // their index
		want        []string
	}{
		"nothing changes": {allocations: 7, want: once},
		"one changes":     {allocations: 8, want: append(slices.Clone(once), "/v1/job/j")},
	} {
		var mu sync.Mutex
		var asked []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path, out := r.URL.Path, any([]any{})
			index := 7
			switch {
			case strings.HasSuffix(path, "/job/j"):
				out = &api.Job{ID: new("j"), Type: new("service"), JobModifyIndex: new(uint64(3))}
			case strings.HasSuffix(path, "/job/j/allocations"):
				index = c.allocations
			case strings.HasSuffix(path, "/job/j/evaluations"):
				path += "?" + r.URL.RawQuery
			case strings.HasSuffix(path, "/deployment"):
				out = nil
			case strings.HasSuffix(path, "/evaluation/e"):
				path += "?index=" + r.URL.Query().Get("index")
				out = &api.Evaluation{ID: "e", Status: api.EvalStatusComplete, JobID: "j", CreateIndex: 5}
			}
			mu.Lock()
			asked = append(asked, path)
			mu.Unlock()
			w.Header().Set("X-Nomad-Index", strconv.Itoa(index))
			if err := json.NewEncoder(w).Encode(out); err != nil {
				t.Error(err)
			}
		}))
		var out strings.Builder
		e := kit.New(nil, &out, &out, func(name string) string {
			return map[string]string{"BERTH_ADDR": server.URL}[name]
		}, nil, "")
		if err := e.Connect(); err != nil {
			t.Fatal(err)
		}
		err := follow.New(e, false, false).Job(t.Context(), follow.Registered{
			Ref:            kit.Ref{ID: "j"},
			JobModifyIndex: 3,
			Eval:           "e",
			EvalIndex:      5,
		})
		e.Close()
		server.Close()
		slices.Sort(asked)
		slices.Sort(c.want)
		if err != nil || !slices.Equal(asked, c.want) {
			t.Errorf("%s: %v; asked for %q, want %q\n%s", name, err, asked, c.want, out.String())
		}
	}
}
