package host

import (
	"path/filepath"
	"slices"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/client/fingerprint"
	"berth/internal/model/node"
)

// Given what is kept back from allocs, then the node says so, and its range of dynamic ports is the one that was set,
// or else the usual one.
func TestWhatIsReservedIsKeptBack(t *testing.T) {
	n := &node.Node{}
	reserve(n, Reserved{
		CPUMHz:         100,
		MemoryMB:       200,
		DiskMB:         300,
		Ports:          []int{22},
		MaxDynamicPort: 20100,
	})
	if r := n.Reserved; r.CPUShares != 100 || r.MemoryMB != 200 || r.DiskMB != 300 ||
		!slices.Equal(r.ReservedPorts, []int{22}) {
		t.Errorf("kept back: %+v", r)
	}
	if r := n.Resources; r.MinDynamicPort != DefaultMinDynamicPort || r.MaxDynamicPort != 20100 ||
		!slices.Equal(r.ReservedPorts, []int{22}) {
		t.Errorf("ports: %+v", r)
	}
	reserve(n, Reserved{MinDynamicPort: 30000})
	if r := n.Resources; r.MinDynamicPort != 30000 || r.MaxDynamicPort != DefaultMaxDynamicPort ||
		len(r.ReservedPorts) != 0 {
		t.Errorf("ports: %+v", r)
	}
}

// Given the host volumes of a configuration, then each is given with its path and whether it may be written to; one
// that is not there, or not offered, is waited for.
func TestAHostVolumeIsGivenAsItIsConfigured(t *testing.T) {
	dir := t.TempDir()
	h := &Host{cfg: Config{HostVolumes: []fingerprint.HostVolume{
		{Name: "rw", Path: dir},
		{Name: "ro", Path: dir, ReadOnly: true},
		{Name: "missing", Path: filepath.Join(dir, "none")},
	}}}
	for name, readOnly := range map[string]bool{"rw": false, "ro": true} {
		if path, ro, err := h.HostVolume(name); err != nil || path != dir || ro != readOnly {
			t.Errorf("%s: %s, read-only %v, %v", name, path, ro, err)
		}
	}
	for _, name := range []string{"missing", "unknown"} {
		if path, _, err := h.HostVolume(name); !fault.Has(err, fault.NotReady) {
			t.Errorf("%s: %s, %v", name, path, err)
		}
	}
}
