package shim_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/client/shim"
	"berth/internal/port/driver"
)

// Given a shim whose socket has another file in its place, because a copy of the directory was laid over it, or none,
// when an agent comes back, then it reaches the shim, lists what that holds, and ends it; an agent on a copy that lies
// elsewhere does not reach it.
func TestAShimWhoseSocketWasReplacedIsReached(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string){
		"by a socket at which nobody listens": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			dead.SetUnlinkOnClose(false)
			if err := dead.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"by nothing": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			agent := func(dir string) *shim.Launcher {
				l, err := shim.New(shim.Config{Dir: dir, Slice: slice, Program: program})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			alloc := ids.New()
			first := agent(dir)
			p, err := first.Launch(short(t), &driver.LaunchSpec{
				AllocID:   alloc,
				Task:      "web",
				Attempt:   1,
				Argv:      []string{"/bin/sleep", "1000"},
				Logs:      driver.LogConfig{Dir: tempDir(t)},
				Resources: driver.Resources{CPUShares: 100, MemoryMB: 50},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := agent(dir).End(short(t), ids.Alloc(alloc)); err != nil {
					t.Error(err)
				}
			})
			copied := tempDir(t)
			replace(t, filepath.Join(dir, alloc+".sock"))
			if h := agent(copied).Look(short(t), ids.Alloc(alloc)); !h.Dead {
				t.Errorf("an agent on a copy elsewhere reaches %+v", h)
			}
			second := agent(dir)
			if _, err := second.Attach(short(t), p.Handle()); err != nil {
				t.Fatal(err)
			}
			if h := second.Look(short(t), ids.Alloc(alloc)); h.Dead || len(h.Tasks) != 1 || h.Tasks[0].Ended {
				t.Errorf("it holds %+v", h)
			}
			if _, err := os.Stat(filepath.Join(dir, alloc+".sock")); err != nil {
				t.Error(err)
			}
			if err := second.End(short(t), ids.Alloc(alloc)); err != nil {
				t.Error(err)
			}
			if h := second.Look(short(t), ids.Alloc(alloc)); !h.Dead || h.Populated {
				t.Errorf("what is left is %+v", h)
			}
		})
	}
}
