// Package serving owns the look for the processes of shims that asks none of them: by the cgroups that they were
// started in and their command lines, also where another directory has taken the place of that of their sockets.
// Package shim and those that judge a data directory before anything of it is used import it.
package serving

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/cgroup"
)

// PID is the process of an alloc's shim with a socket, in the cgroup that it was started in; 0: there is none.
func PID(tree *cgroup.Tree, slice, alloc, socket string) int {
	for _, text := range tree.ShimProcesses(slice, alloc) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			continue
		}
		argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // it has ended
		}
		args := bytes.Split(bytes.TrimSuffix(argv, []byte{0}), []byte{0})
		if len(args) == 5 && string(args[1]) == "shim" && string(args[4]) == socket {
			return pid
		}
	}
	return 0
}

// Shim is one that lives.
type Shim struct {
	Alloc ids.Alloc // or the hash that names its files, where the id is no UUID
	Open  []string  // the paths of what it has open, as they are now
}

// From lists the shims that were started with a socket in a directory and live, whatever lies there now. slice is the
// cgroup of all allocs.
func From(dir, slice string) ([]Shim, error) {
	tree, err := cgroup.Discover()
	if err != nil {
		return nil, err
	}
	allocs, err := tree.Allocs(slice)
	if err != nil {
		return nil, err
	}
	var out []Shim
	for _, alloc := range allocs {
		pid := PID(tree, slice, alloc, filepath.Join(dir, alloc+".sock"))
		if pid == 0 {
			continue
		}
		open, err := openFiles(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			return nil, fault.Wrap(err, fault.Internal, "look at the files of", "the shim of alloc "+ids.Short(alloc))
		}
		out = append(out, Shim{Alloc: ids.Alloc(alloc), Open: open})
	}
	return out, nil
}

// openFiles lists what a process has open, by the paths that the kernel gives for it now.
func openFiles(pid int) (out []string, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path, err := os.Readlink(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was closed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}
