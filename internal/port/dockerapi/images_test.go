package dockerapi_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/dockerapi"
)

// TestAnImageThatIsBeingRemovedIsNotFound: given a daemon that has an image's name and no more its layers, as it is
// while one is removed, then the image is not found, and can be pulled; another failure stays one.
func TestAnImageThatIsBeingRemovedIsNotFound(t *testing.T) {
	for says, want := range map[string]fault.Kind{
		"layer does not exist":      fault.NotFound,
		"the disk does not answer ": fault.Internal,
	} {
		socket := filepath.Join(t.TempDir(), "docker.sock")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		daemon := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"message":"` + says + `"}`))
		}))
		_ = daemon.Listener.Close()
		daemon.Listener = l
		daemon.Start()
		t.Cleanup(daemon.Close)
		_, err = dockerapi.New(socket).Image(t.Context(), "team/busybox:1")
		if fault.KindOf(err) != want || !strings.Contains(err.Error(), strings.TrimSpace(says)) {
			t.Errorf("%s: %s: %v", says, fault.KindOf(err), err)
		}
	}
}
