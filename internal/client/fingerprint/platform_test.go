package fingerprint

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// Given what distributions write of themselves, when a node reads it, then its version has the point release where one
// is named, and that of no other distribution.
func TestTheVersionOfADistributionHasItsPointRelease(t *testing.T) {
	for name, c := range map[string]struct{ release, debian, want string }{
		"a point release":             {"ID=debian\nVERSION_ID=\"12\"\n", "12.11\n", "12.11"},
		"none named":                  {"ID=alpine\nVERSION_ID=3.20.1\n", "", "3.20.1"},
		"of what it was made from":    {"ID=ubuntu\nVERSION_ID=\"24.04\"\n", "trixie/sid\n", "24.04"},
		"the same digits, no release": {"ID=debian\nVERSION_ID=\"1\"\n", "12.11\n", "1"},
		"testing has no version":      {"ID=debian\n", "trixie/sid\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			etc := t.TempDir()
			write(t, filepath.Join(etc, "os-release"), c.release)
			if c.debian != "" {
				write(t, filepath.Join(etc, "debian_version"), c.debian)
			}
			f := Found{Attributes: map[string]string{}}
			if err := distribution(&f, etc); err != nil {
				t.Fatal(err)
			}
			if got := f.Attributes["os.version"]; got != c.want {
				t.Errorf("os.version %q, want %q", got, c.want)
			}
		})
	}
}

// Given a machine with two memory nodes, when a node looks, then it names the cores of each; given a kernel that knows
// of none, then it says nothing of them.
func TestTheCoresOfEachMemoryNodeAreNamed(t *testing.T) {
	dir := t.TempDir()
	none := Found{Attributes: map[string]string{}}
	if err := numa(&none, dir); err != nil || len(none.Attributes) != 0 {
		t.Errorf("without NUMA: %v, %v", none.Attributes, err)
	}
	write(t, filepath.Join(dir, "node0", "cpulist"), "0-3,8\n")
	write(t, filepath.Join(dir, "node12", "cpulist"), "4-7\n")
	write(t, filepath.Join(dir, "online"), "0,12\n")
	f := Found{Attributes: map[string]string{}}
	if err := numa(&f, dir); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"numa.node.count": "2", "numa.node0.cores": "0-3,8", "numa.node12.cores": "4-7"}
	if !maps.Equal(f.Attributes, want) {
		t.Errorf("%v, want %v", f.Attributes, want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
