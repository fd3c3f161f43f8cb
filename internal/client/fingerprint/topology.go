package fingerprint

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/cores"
)

// topology reads the cores that are online and how they are arranged, from dir (/sys/devices/system). Where there is no
// such directory the node gives no cores away whole. mhz is the speed of a core that does not tell its own.
func topology(f *Found, dir string, mhz int64) error {
	f.Resources.Cores = nil
	online, err := list(filepath.Join(dir, "cpu", "online"))
	if err != nil || len(online) == 0 {
		f.set("cpu.reservablecores", 0)
		return fault.Wrap(err, fault.Internal, "read", "the cores that are online")
	}
	memory, err := memoryNodes(filepath.Join(dir, "node"))
	if err != nil {
		return err
	}
	efficient, err := list(filepath.Join(dir, "..", "cpu_atom", "cpus")) // /sys/devices/cpu_atom, of hybrid machines
	if err != nil {
		return err
	}
	for _, id := range online {
		at := filepath.Join(dir, "cpu", fmt.Sprint("cpu", id))
		khz := func(name string) int64 { return value(filepath.Join(at, "cpufreq", name)) }
		f.Resources.Cores = append(f.Resources.Cores, cores.Core{
			ID:        id,
			Socket:    int(value(filepath.Join(at, "topology", "physical_package_id"))),
			Memory:    memory[id],
			Efficient: slices.Contains(efficient, id),
			BaseMHz:   cmp.Or(khz("base_frequency")/1000, mhz),
			MaxMHz:    khz("cpuinfo_max_freq") / 1000,
		})
	}
	f.set("cpu.reservablecores", len(f.Resources.Cores))
	return nil
}

// memoryNodes is the memory node of each core; a kernel without NUMA has none, and then all are of node 0.
func memoryNodes(dir string) (map[uint16]int, error) {
	nodes, err := filepath.Glob(filepath.Join(dir, "node[0-9]*"))
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "the memory nodes")
	}
	out := map[uint16]int{}
	for _, path := range nodes {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), "node"))
		if err != nil {
			continue
		}
		ids, err := list(filepath.Join(path, "cpulist"))
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			out[id] = n
		}
	}
	return out, nil
}

// list reads a list of cores; a file that is not there has none.
func list(path string) ([]uint16, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", path)
	}
	out, err := cores.Parse(string(text))
	return out, fault.Note(err, "read", path)
}

// value reads a number that not every machine tells; 0: it does not.
func value(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
