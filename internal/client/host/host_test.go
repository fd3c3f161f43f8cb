package host

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
		if path, ro, err := h.HostVolume(t.Context(), name); err != nil || path != dir || ro != readOnly {
			t.Errorf("%s: %s, read-only %v, %v", name, path, ro, err)
		}
	}
	for _, name := range []string{"missing", "unknown"} {
		if path, _, err := h.HostVolume(t.Context(), name); !fault.Has(err, fault.NotReady) {
			t.Errorf("%s: %s, %v", name, path, err)
		}
	}
}

// Given host volumes, when one cannot be used any more, or can again, then the agent's log says it once, with why.
func TestAHostVolumeThatGoesAwayIsSaid(t *testing.T) {
	var said bytes.Buffer
	described := func(unhealthy string) *node.Node {
		return &node.Node{HostVolumes: map[string]*node.HostVolume{
			"data": {Name: "data", Unhealthy: unhealthy}, "other": {Name: "other"},
		}}
	}
	h := &Host{cfg: Config{Log: slog.New(slog.NewTextHandler(&said, nil))}}
	var before *node.Node
	for i, now := range []struct{ unhealthy, want string }{
		{"", ""},
		{"no such directory", `level=WARN`},
		{"no such directory", ""},
		{"", `level=INFO msg="a host volume can be used again" host_volume=data`},
	} {
		said.Reset()
		h.current = described(now.unhealthy)
		h.sayVolumes(before)
		got := said.String()
		if now.want == "" && got != "" || !strings.Contains(got, now.want) || !strings.Contains(got, now.unhealthy) &&
			now.want != "" || strings.Contains(got, "other") {
			t.Errorf("%d: said %q, not %q", i, got, now.want)
		}
		before = h.current
	}
}

// Given a node whose link had no address at its start, when it has one and the node looks again, then it is offered, by
// the attribute too; an address that is offered stays.
func TestAnAddressThatComesLateIsOffered(t *testing.T) {
	options := fingerprint.Options{Interface: "no-such-link", DiskPath: t.TempDir()}
	h := &Host{cfg: Config{Fingerprint: options, Log: slog.New(slog.DiscardHandler)}}
	h.found = fingerprint.Read(t.Context(), options)
	h.lookAtNetwork(t.Context())
	if ip := h.found.Resources.IP; ip != "" {
		t.Fatalf("without its link the node offers %s", ip)
	}
	h.cfg.Fingerprint.Interface = "lo"
	h.lookAtNetwork(t.Context())
	ip := h.found.Resources.IP
	if ip == "" || h.found.Attributes["unique.network.ip-address"] != ip {
		t.Errorf("with its link it offers %q, by the attribute %q", ip, h.found.Attributes["unique.network.ip-address"])
	}
	h.cfg.Fingerprint.Interface = "no-such-link"
	h.cfg.Fingerprint.HostNetworks = []fingerprint.HostNetwork{{Name: "lan", Interface: "lo"}}
	h.lookAtNetwork(t.Context())
	if len(h.found.Resources.HostNetworks) != 1 {
		t.Error("a host network that comes late is not offered")
	}
	if h.found.Resources.IP != ip {
		t.Errorf("it offers %q, and %s before", h.found.Resources.IP, ip)
	}
}

// Given a node that was described at its start, when its disk changes a little and it looks again for the first time,
// then that is no news: each news is an entry of the log, and may send a plan back.
func TestASmallChangeOfTheDiskIsNoNewsAtTheFirstLook(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	options := fingerprint.Options{DiskPath: dir, Allocs: filepath.Join(dir, "alloc")}
	h := &Host{cfg: Config{Fingerprint: options}, found: fingerprint.Read(t.Context(), options)}
	write := func(name string, mib int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, mib<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		h.lookAtDisk(t.Context())
	}
	write("small", 2)
	if got := h.found.Resources.DiskMB; got != 256 {
		t.Errorf("beside 2 MiB of others it offers %d MiB: that is an entry", got)
	}
	write("large", 100)
	if got := h.found.Resources.DiskMB; got != 154 {
		t.Errorf("beside 102 MiB of others it offers %d MiB", got)
	}
}

// Given drivers of which one says what the node, or another driver, is, when the node is described, then that is as the
// node has found it and as the other says, whichever comes first; what the driver says of itself, and what nobody else
// says, is there.
func TestADriverSaysNothingOfOthers(t *testing.T) {
	n := &node.Node{
		Attributes: map[string]string{"kernel.name": "linux"},
		Drivers: map[string]*node.Driver{
			"a": {Detected: true, Attributes: map[string]string{
				"kernel.name": "none", "driver.exec": "0", "driver.exec.confined": "0", "driver.raw_exec.x": "1",
				"driver.a": "1", "driver.a.version": "7", "driver.another-word": "1", "shared": "a",
			}},
			"exec": {Detected: true, Attributes: map[string]string{
				"driver.exec": "1", "driver.exec.confined": "1",
			}},
			"raw_exec": {Attributes: map[string]string{"driver.raw_exec": "1"}},
			"z": {Detected: true, Attributes: map[string]string{
				"driver.exec.confined": "0", "driver.a.version": "8", "shared": "z",
			}},
		},
	}
	addOfDrivers(n)
	want := map[string]string{
		"kernel.name": "linux", "driver.exec": "1", "driver.exec.confined": "1", "driver.a": "1",
		"driver.a.version": "7", "driver.another-word": "1", "shared": "a",
	}
	if !maps.Equal(n.Attributes, want) {
		t.Errorf("the node says %v\nnot %v", n.Attributes, want)
	}
}
