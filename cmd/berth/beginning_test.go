package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// mostAtTheStart is how much memory a package may take before main, in bytes: what takes more, such as a regular
// expression with a bound of a hundred, is made when it is needed (package pattern).
const mostAtTheStart = 64 << 10

var traced = regexp.MustCompile(`(?m)^init (berth/\S+) @.* (\d+) bytes`)

// TestNoPackageMakesMuchBeforeItIsNeeded: every command that a person types waits for it. What is generated, and what
// belongs to tests, is left out.
func TestNoPackageMakesMuchBeforeItIsNeeded(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all := traced.FindAllStringSubmatch(string(out), -1)
	if len(all) < 20 {
		t.Fatalf("no more than %d packages are traced:\n%s", len(all), out)
	}
	for _, m := range all {
		if strings.HasPrefix(m[1], "berth/pluginproto/") || strings.HasPrefix(m[1], "berth/internal/testkit/") {
			continue
		}
		if n, err := strconv.Atoi(m[2]); err != nil || n > mostAtTheStart {
			t.Errorf("package %s takes %s bytes before main, at most %d", m[1], m[2], mostAtTheStart)
		}
	}
}
