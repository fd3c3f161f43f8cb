package client_test

import (
	"os"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/client"
	"berth/internal/client/shim"
	"berth/internal/helperbin"
	"berth/internal/port/driver/exec"
)

func TestANodeDoesNotStartWithoutTheDeviceThatItIsToBound(t *testing.T) {
	r := newRig(t)
	shims, err := os.MkdirTemp("/tmp", "shim") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(shims); err != nil {
			t.Error(err)
		}
	})
	_, err = client.New(t.Context(), client.Config{
		DataDir: r.dir,
		Servers: r.calls,
		Shims:   &shim.Config{Dir: shims, Program: helperbin.Open},
		Exec:    exec.Config{IOMax: []string{"/nothing/there wbps=1"}},
	})
	if !fault.Has(err, fault.NotFound) || !strings.Contains(err.Error(), "io_max") ||
		!strings.Contains(err.Error(), "/nothing/there") {
		t.Errorf("%v", err)
	}
}
