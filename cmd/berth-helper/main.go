// Command berth-helper is the small program that berth starts for everything that must outlive the agent or that may
// hang: the shim that holds an alloc's tasks, the init stage that builds an isolated task's root, and single mount calls.
// It is embedded in berth and not meant to be called by people.
package main

import (
	"context"
	"os"
	"runtime/debug"
	"strconv"

	"berth/cmd/berth-helper/internal/initstage"
	"berth/cmd/berth-helper/internal/mounter"
	"berth/cmd/berth-helper/internal/shim"
	"berth/internal/shimproto"
)

const usage = "usage: berth-helper shim ALLOC SLICE SOCKET | init NAME | mount … | version\n"

// listenFD is where a shim finds its listening socket.
const listenFD = 3

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	role := ""
	if len(args) > 0 {
		role = args[0]
	}
	var err error
	switch {
	case role == "shim" && len(args) == 4:
		frugal("berth-shim")
		err = shim.Run(context.Background(), args[1], args[2], args[3], listenFD)
	case role == "init":
		frugal("berth-init")
		err = initstage.Run()
	case role == "mount":
		name("berth-mount")
		return mounter.Run(args[1:], os.Stdout, os.Stderr)
	case role == "version":
		_, err = os.Stdout.WriteString("berth-helper protocol " + strconv.Itoa(shimproto.Version) + "\n")
	default:
		_, _ = os.Stderr.WriteString(usage) // nobody reads it
		return 2
	}
	if err != nil {
		_, _ = os.Stderr.WriteString("berth-helper " + role + ": " + err.Error() + "\n") // nobody reads it
		return 1
	}
	return 0
}

// frugal keeps the heap of a process small that lives as long as its tasks: there is one per alloc.
func frugal(as string) {
	name(as)
	debug.SetGCPercent(20)
}

// name is what ps shows; a program run from memory would have a number there. It serves people only.
func name(as string) {
	_ = os.WriteFile("/proc/self/comm", []byte(as), 0)
}
