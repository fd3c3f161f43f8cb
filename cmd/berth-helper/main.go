// Command berth-helper is the small program that berth starts for what must outlive the agent: the shim that holds an
// alloc's tasks, the init stage that builds an isolated task's root, and what reads the output of tasks whose driver is
// another program, or a daemon; and for what may never return: unmounting,
// asking who holds a device, and whether a file system is alive. It is embedded in berth and not meant to be called by
// people.
package main

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"strconv"

	"berth/cmd/berth-helper/internal/alive"
	"berth/cmd/berth-helper/internal/collect"
	"berth/cmd/berth-helper/internal/containerlog"
	"berth/cmd/berth-helper/internal/holders"
	"berth/cmd/berth-helper/internal/initstage"
	"berth/cmd/berth-helper/internal/joinnet"
	"berth/cmd/berth-helper/internal/shim"
	"berth/cmd/berth-helper/internal/spawn"
	"berth/cmd/berth-helper/internal/unmount"
	"berth/internal/base/descriptors"
	"berth/internal/base/privilege"
	"berth/internal/shimproto"
)

const usage = "usage: berth-helper shim ALLOC SLICE SOCKET | init NAME | unmount PATH ID DEVICE ROOT | " +
	"holders probe|scan DEVICE SEQUENCE PATH... | alive PATH read|write | users FIRST PATH... | " +
	"collect STDOUT STDERR | containerlog SOCKET VERSION CONTAINER tty|streams SINCE | joinnet PATH | version\n"

// listenFD is where a shim finds its listening socket.
const listenFD = 3

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	role := ""
	if len(args) > 0 {
		role = args[0]
	}
	// Before any role takes over the descriptors that it was handed: these stay open here and reach no task, nor does
	// anything else that an agent of another version may have left open.
	err := descriptors.CloseOnExec()
	switch {
	case err != nil:
	case role == "shim" && len(args) == 4:
		frugal("berth-shim")
		// It keeps the environment of its tasks, with their secrets.
		if err = privilege.HideMemory(); err == nil {
			err = shim.Run(context.Background(), args[1], args[2], args[3], listenFD)
		}
	case role == "init":
		frugal("berth-init")
		err = initstage.Run()
	case role == "unmount" && len(args) == 1+unmount.Args:
		err = unmount.Run(args[1:])
	case role == "holders" && len(args) > holders.MinArgs:
		err = holders.Run(os.Stdout, args[1:])
	case role == "collect" && len(args) == 1+collect.Args:
		frugal("berth-collect")
		err = collect.Run(context.Background(), args[1], args[2])
	case role == "containerlog" && len(args) == 1+containerlog.Args:
		frugal("berth-log")
		err = containerlog.Run(args[1:])
	case role == "joinnet" && len(args) == 2:
		err = joinnet.Run(args[1])
	case role == "alive" && len(args) == 1+alive.Args:
		err = alive.Run(os.Stdout, args[1:])
	case role == "users" && len(args) > 2:
		err = probeUsers(args[1], args[2:])
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

// probeUsers tries whether tasks can have user namespaces: whether paths of the node can be shown in one whose first
// user has this number.
func probeUsers(first string, paths []string) error {
	id, err := strconv.ParseUint(first, 10, 32)
	if err != nil {
		return err
	}
	users, err := spawn.UserNamespace(uint32(id))
	if err != nil {
		return err
	}
	return errors.Join(initstage.Probe(users, paths), users.Close())
}

// frugal keeps the heap of a process small that lives as long as its tasks: there is one per alloc. The name is for ps;
// a program run from memory would have a number there.
func frugal(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // it serves people only
	debug.SetGCPercent(20)
}
