package fingerprint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/base/fault"
)

// distribution reads what os-release(5) and its kin say below etc.
func distribution(f *Found, etc string) error {
	data, err := os.ReadFile(filepath.Join(etc, "os-release"))
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "distribution")
	}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			f.set("os.name", value)
		case "VERSION_ID":
			f.set("os.version", value)
		}
	}
	// Debian says "12" there all through a release; the point release stands here. Distributions that stem from it keep
	// the file of the release that they were made from, so it counts only where it says more of the same version.
	point, err := os.ReadFile(filepath.Join(etc, "debian_version"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "the point release of the distribution")
	}
	version := strings.TrimSpace(string(point))
	if major := f.Attributes["os.version"]; major != "" && strings.HasPrefix(version, major+".") {
		f.set("os.version", version)
	}
	return nil
}

// numa reads how the cores are spread over memory nodes, from dir (/sys/devices/system/node). A kernel without NUMA has
// no such directory, and the node no such attributes.
func numa(f *Found, dir string) error {
	nodes, err := filepath.Glob(filepath.Join(dir, "node[0-9]*"))
	if err != nil || len(nodes) == 0 {
		return err
	}
	for _, path := range nodes {
		cores, err := os.ReadFile(filepath.Join(path, "cpulist"))
		if err != nil {
			return fault.Wrap(err, fault.Internal, "read", "the cores of a memory node")
		}
		f.set("numa."+filepath.Base(path)+".cores", strings.TrimSpace(string(cores)))
	}
	f.set("numa.node.count", len(nodes))
	return nil
}
