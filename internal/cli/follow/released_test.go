package follow_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"berth/api"
	"berth/internal/cli/follow"
	"berth/internal/cli/kit"
)

// TestWhatTheServersForgetHasBeenReleased: given an allocation that has ended, when it has released its volume, or the
// servers do not know it, at once or after it was seen to hold the volume, then the following ends well.
func TestWhatTheServersForgetHasBeenReleased(t *testing.T) {
	holds := &api.Allocation{ID: "a", Storage: []api.AllocVolume{{Volume: "db", State: "unmounting", Held: true}}}
	free := &api.Allocation{ID: "a"}
	for name, answers := range map[string][]*api.Allocation{ // nil: it is not known
		"released":                   {free},
		"released after a while":     {holds, holds, free},
		"never known":                {nil},
		"forgotten while it held it": {holds, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var reads atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				n := reads.Add(1)
				a := answers[min(n, int64(len(answers)))-1]
				w.Header().Set("X-Nomad-Index", strconv.FormatInt(n, 10))
				if a == nil {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				if err := json.NewEncoder(w).Encode(a); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			c, err := api.NewClient(api.Config{Address: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer c.CloseIdle()
			var out bytes.Buffer
			f := &follow.Follower{Env: kit.New(nil, &out, &out, func(string) string { return "" }, nil, ""), Client: c}
			if err := f.Released(t.Context(), "a"); err != nil {
				t.Errorf("after %d reads: %v", reads.Load(), err)
			}
			if shown := strings.Contains(out.String(), `volume "db": unmounting`); shown != (answers[0] == holds) {
				t.Errorf("its output: %q", out.String())
			}
		})
	}
}
