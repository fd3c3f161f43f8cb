package localcsi

import (
	"os"
	"os/exec"
	"testing"
)

// runTestInChild runs one test of this binary in a process of its own.
func runTestInChild(t *testing.T, name string, env ...string) {
	t.Helper()
	needRoot(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", env, err, out)
	}
	t.Logf("%s", out)
}
