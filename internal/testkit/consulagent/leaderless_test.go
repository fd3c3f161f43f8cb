package consulagent

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestAQuestionWaitsForConsulToHaveALeader: a server that takes itself for cut off says so for a moment, and what was
// asked then is asked again.
func TestAQuestionWaitsForConsulToHaveALeader(t *testing.T) {
	var asked atomic.Int32
	answers := []string{"No cluster leader", "Not ready to serve consistent reads", ""}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if text := answers[asked.Add(1)-1]; text != "" {
			http.Error(w, text, http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(`[{"ServiceID":"x"}]`))
	}))
	t.Cleanup(srv.Close)
	a := &Agent{t: t, ports: []int{srv.Listener.Addr().(*net.TCPAddr).Port}}
	if all := a.Catalog("x"); len(all) != 1 || asked.Load() != 3 {
		t.Errorf("%v, asked %d times", all, asked.Load())
	}
}
