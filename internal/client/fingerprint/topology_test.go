package fingerprint

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/model/cores"
)

// machineOf writes the files of a machine with two memory nodes, whose cores 2 and 3 are of the slow kind and of which
// core 1 is offline.
func machineOf(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "devices", "system")
	write(t, filepath.Join(dir, "cpu", "online"), "0,2-4\n")
	write(t, filepath.Join(dir, "node", "node0", "cpulist"), "0-3\n")
	write(t, filepath.Join(dir, "node", "node1", "cpulist"), "4\n")
	write(t, filepath.Join(dir, "..", "cpu_atom", "cpus"), "2-3\n")
	write(t, filepath.Join(dir, "cpu", "cpu0", "cpufreq", "base_frequency"), "3200000\n")
	write(t, filepath.Join(dir, "cpu", "cpu0", "cpufreq", "cpuinfo_max_freq"), "5100000\n")
	write(t, filepath.Join(dir, "cpu", "cpu4", "topology", "physical_package_id"), "1\n")
	return dir
}

func TestANodeTellsHowItsCoresAreArranged(t *testing.T) {
	f := Found{Attributes: map[string]string{}}
	if err := topology(&f, machineOf(t), 2000); err != nil {
		t.Fatal(err)
	}
	want := []cores.Core{
		{ID: 0, BaseMHz: 3200, MaxMHz: 5100},
		{ID: 2, BaseMHz: 2000, Efficient: true},
		{ID: 3, BaseMHz: 2000, Efficient: true},
		{ID: 4, BaseMHz: 2000, Socket: 1, Memory: 1},
	}
	if !slices.Equal(f.Resources.Cores, want) || f.Attributes["cpu.reservablecores"] != "4" {
		t.Errorf("it tells %+v, attributes %v", f.Resources.Cores, f.Attributes)
	}
}

// Given a machine that tells nothing, or nonsense, of its cores, then none of them is given away.
func TestANodeThatKnowsNothingOfItsCoresGivesNoneAway(t *testing.T) {
	f := Found{Attributes: map[string]string{}}
	if err := topology(&f, t.TempDir(), 2000); err != nil || f.Resources.Cores != nil ||
		f.Attributes["cpu.reservablecores"] != "0" {
		t.Errorf("%+v, %v, %v", f.Resources.Cores, f.Attributes, err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cpu", "online"), "x\n")
	if err := topology(&f, dir, 2000); err == nil || !strings.Contains(err.Error(), "it names no cores") {
		t.Errorf("nonsense: %v", err)
	}
	if f.Resources.Cores != nil {
		t.Errorf("%+v are given away", f.Resources.Cores)
	}
}
