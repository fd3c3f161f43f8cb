package e2e

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"berth/internal/testkit/consulagent"
)

// TestDemoConsul runs what a newcomer runs who wants to see services in Consul: tags that others write stay, and an
// intention decides who speaks with whom. Nothing of it is left.
func TestDemoConsul(t *testing.T) {
	program := consulagent.Program(t)
	dir, err := os.MkdirTemp("/tmp", "b")
	must(t, err)
	t.Cleanup(func() { must(t, sweep(dir)) })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../scripts/demo-consul.sh")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it takes away what it has made
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "BERTH_CONSUL="+program, "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mustSay(t, "the demo", string(out), "its tags in Consul: green", "its tags in Consul: red", "hello by the mesh",
		"web => api (deny)")
	nothingOf(t, dir, nil)
}
