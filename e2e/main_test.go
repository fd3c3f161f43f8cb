package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/testkit/mountns"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(watchedEnv) != "" {
		becomeWatched()
	}
	flag.Parse()
	switch {
	case testing.Short():
		fmt.Println("end-to-end tests start real agents and mount real volumes: not in short runs")
		os.Exit(0)
	case os.Geteuid() != 0:
		fmt.Println("end-to-end tests mount volumes: run them as root")
		os.Exit(1)
	}
	mountns.Main(func() int { return run(m) })
}

// run runs the tests against a copy of the program.
func run(m *testing.M) int {
	path, err := filepath.Abs("../bin/berth")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		fmt.Println("there is no program to test, run \"make build\" first:", err)
		return 1
	}
	if binary, err = keepBinary(path); err != nil {
		fmt.Println("copy the program:", err)
		return 1
	}
	code := m.Run()
	if err := os.RemoveAll(filepath.Dir(binary)); err != nil {
		fmt.Println("clean up:", err)
		code = 1
	}
	return code
}

// keepBinary copies the program, so that a build during the run does not change what is tested.
func keepBinary(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "berth-e2e-")
	if err != nil {
		return "", err
	}
	kept := filepath.Join(dir, "berth")
	return kept, os.WriteFile(kept, data, 0o755)
}
