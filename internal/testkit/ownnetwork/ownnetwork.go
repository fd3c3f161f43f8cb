// Package ownnetwork runs the tests of a package in a network namespace of their own, so that the machine's is not
// touched.
package ownnetwork

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// The first thread stays with the main goroutine: /proc/self is about it.
func init() { runtime.LockOSThread() }

const inside = "BERTH_TEST_OWN_NETWORK"

// Main is what TestMain calls. Without root, tests run where they are.
func Main(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin = os.Stdin
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error()+"\n") // the exit tells it too
		os.Exit(1)
	}
}
