package shim_test

import (
	"os"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/client/shim"
	"berth/internal/port/driver"
)

// Given a shim that could not be forked, when its alloc is tried again, then it starts and can be ended, and nothing of
// the first try is in the way.
func TestAForkThatFailedIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	failed := false
	l, err := shim.New(shim.Config{Dir: dir, Slice: slice, Program: func() (*os.File, error) {
		if failed {
			return program()
		}
		failed = true
		return os.Open("/etc/hostname") // no program
	}})
	if err != nil {
		t.Fatal(err)
	}
	alloc := ids.New()
	spec := &driver.LaunchSpec{
		AllocID:   alloc,
		Task:      "web",
		Attempt:   1,
		Argv:      []string{"/bin/sleep", "1000"},
		Logs:      driver.LogConfig{Dir: tempDir(t)},
		Resources: driver.Resources{CPUShares: 100, MemoryMB: 50},
	}
	if _, err := l.Launch(short(t), spec); err == nil {
		t.Fatal("a text was run as a program")
	}
	if _, err := l.Launch(short(t), spec); err != nil {
		t.Fatalf("the second try: %v", err)
	}
	if err := l.EndAll(short(t)); err != nil {
		t.Error(err)
	}
}
