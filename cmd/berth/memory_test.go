package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// afterwards is what a program tells of itself when it has run: whether its memory may be read and dumped.
const afterwards = "BERTH_TEST_TELL_DUMPABLE"

func tellDumpable() {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	fmt.Printf("dumpable %d %v\n", dumpable, err)
}

// Agent and plugin hold the secrets of volumes: nobody of their user reads them from their memory, nor from core dumps.
func TestTheMemoryOfAgentAndPluginIsHidden(t *testing.T) {
	for args, want := range map[string]string{
		"agent -no-such-flag":            "dumpable 0 <nil>",
		"plugin local-csi -no-such-flag": "dumpable 0 <nil>",
		"version":                        "dumpable 1 <nil>",
	} {
		cmd := exec.Command("/proc/self/exe", strings.Fields(args)...)
		cmd.Env = append(os.Environ(), asBerth+"=1", afterwards+"=1")
		out, _ := cmd.Output() // its exit code is what becomes of the flag
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if last := lines[len(lines)-1]; last != want {
			t.Errorf("berth %s: %q, want %q", args, last, want)
		}
	}
}
