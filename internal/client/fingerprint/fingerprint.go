// Package fingerprint owns what a node can tell about itself by looking: processors, memory, disk, kernel,
// distribution, address and the host volumes that its configuration offers. Only package client imports it.
package fingerprint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/privilege"
	"berth/internal/model/node"
)

// Found is one reading.
type Found struct {
	Attributes map[string]string
	Resources  node.Resources
	Disk       Disk // goes on from the look that Resources is of
	// Problems names what could not be read; the node goes on without it.
	Problems []error
}

// Options steer a reading. Zero values mean: what was found.
type Options struct {
	// DiskPath lies on the file system whose capacity is offered.
	DiskPath string
	// Allocs is the directory of the allocs, whose files are not counted as taken from what is offered.
	Allocs string
	// Interface or IP pick the address that is offered; both empty: loopback.
	Interface    string
	IP           string
	HostNetworks []HostNetwork
	// CPUMHz, MemoryMB and DiskMB override what was found.
	CPUMHz, MemoryMB, DiskMB int64
	Version                  string
}

// NomadVersion is the version that jobs written for the field constrain on; it says which behaviour this node has.
const NomadVersion = "2.0.5"

// Read looks at the node once, no longer than ctx lasts.
func Read(ctx context.Context, o Options) Found {
	f := Found{
		Attributes: map[string]string{"nomad.version": NomadVersion, "berth.version": o.Version,
			"nomad.service_discovery": "false"},
	}
	for _, look := range []func(context.Context, *Found, Options) error{
		cpu, memory, disk, kernel, Network,
		func(_ context.Context, f *Found, _ Options) error { return distribution(f, "/etc") },
		func(_ context.Context, f *Found, _ Options) error { return numa(f, "/sys/devices/system/node") },
	} {
		if err := look(ctx, &f, o); err != nil {
			f.Problems = append(f.Problems, err)
		}
	}
	return f
}

func (f *Found) set(name string, value any) { f.Attributes[name] = fmt.Sprint(value) }

func cpu(_ context.Context, f *Found, o Options) error {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "processors")
	}
	cores := 0
	mhz := 0.0
	model := ""
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			cores++
		case "cpu MHz":
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				mhz = max(mhz, v)
			}
		case "model name":
			model = value
		}
	}
	if v, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency"); err == nil {
		if khz, err := strconv.ParseFloat(strings.TrimSpace(string(v)), 64); err == nil {
			mhz = khz / 1000
		}
	}
	if cores == 0 || mhz == 0 {
		const assumedMHz = 1000 // processors that don't tell their speed still have one
		cores, mhz = max(cores, 1), max(mhz, assumedMHz)
	}
	total := int64(math.Round(mhz)) * int64(cores)
	if o.CPUMHz > 0 {
		total = o.CPUMHz
	}
	f.set("cpu.arch", runtime.GOARCH)
	f.set("cpu.numcores", cores)
	f.set("cpu.frequency", int64(math.Round(mhz)))
	f.set("cpu.modelname", model)
	f.set("cpu.totalcompute", total)
	f.set("cpu.usablecompute", total)
	f.Resources.CPUCores, f.Resources.CPUShares = cores, total
	return topology(f, "/sys/devices/system", int64(math.Round(mhz)))
}

func memory(_ context.Context, f *Found, o Options) error {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return fault.Wrap(err, fault.Internal, "read", "memory")
	}
	total := info.Totalram * uint64(info.Unit)
	f.set("memory.totalbytes", total)
	f.Resources.MemoryMB = int64(total >> 20)
	if o.MemoryMB > 0 {
		f.Resources.MemoryMB = o.MemoryMB
	}
	return nil
}

func disk(ctx context.Context, f *Found, o Options) error {
	var st unix.Statfs_t
	if err := unix.Statfs(o.DiskPath, &st); err != nil {
		return fault.Wrap(err, fault.Internal, "read the capacity of", o.DiskPath)
	}
	f.set("unique.storage.bytestotal", st.Blocks*uint64(st.Bsize))
	f.set("unique.storage.volume", o.DiskPath)
	if f.Resources.DiskMB = o.DiskMB; o.DiskMB > 0 {
		return nil
	}
	var err error
	f.Resources.DiskMB, err = f.Disk.Look(ctx, o.DiskPath, o.Allocs)
	return err
}

func kernel(_ context.Context, f *Found, _ Options) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fault.Wrap(err, fault.Internal, "read", "kernel")
	}
	f.set("kernel.name", "linux")
	f.set("kernel.version", unix.ByteSliceToString(u.Release[:]))
	f.set("kernel.arch", unix.ByteSliceToString(u.Machine[:]))
	name, err := os.Hostname()
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "host name")
	}
	f.set("unique.hostname", name)
	f.set("os.signals", signals)
	f.set("os.cgroups.version", cgroups())
	if v := privilege.Landlock(); v > 0 {
		f.set("kernel.landlock", fmt.Sprint("v", v))
	}
	return nil
}

// signals lists what a job may use as kill_signal or in a template.
const signals = "SIGABRT,SIGALRM,SIGBUS,SIGCHLD,SIGCONT,SIGFPE,SIGHUP,SIGILL,SIGINT,SIGIO,SIGKILL,SIGPIPE," +
	"SIGPROF,SIGQUIT,SIGSEGV,SIGSTOP,SIGSYS,SIGTERM,SIGTRAP,SIGTSTP,SIGTTIN,SIGTTOU,SIGURG,SIGUSR1,SIGUSR2," +
	"SIGVTALRM,SIGWINCH,SIGXCPU,SIGXFSZ"

func cgroups() string {
	var st unix.Statfs_t
	if unix.Statfs("/sys/fs/cgroup", &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		return "2"
	}
	return "1"
}

// Network looks at the addresses that the node offers.
func Network(_ context.Context, f *Found, o Options) error {
	f.Resources.IP, f.Resources.Device = "127.0.0.1", "lo"
	switch {
	case o.IP != "":
		if net.ParseIP(o.IP) == nil {
			return fault.New(fault.Invalid, "offer", fmt.Sprintf("address %q", o.IP), "it is no IP address")
		}
		f.Resources.IP, f.Resources.Device = o.IP, ""
	case o.Interface != "":
		if err := ofInterface(f, o.Interface); err != nil {
			f.Resources.IP, f.Resources.Device = "", "" // nothing is offered rather than another address
			return errors.Join(err, hostNetworks(f, o.HostNetworks))
		}
	}
	f.set("unique.network.ip-address", f.Resources.IP)
	return hostNetworks(f, o.HostNetworks)
}

func ofInterface(f *Found, name string) error {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return fault.Wrap(err, fault.NotFound, "use", fmt.Sprintf("network interface %q", name))
	}
	addrs, err := i.Addrs()
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read addresses of", fmt.Sprintf("network interface %q", name))
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			f.Resources.IP, f.Resources.Device = n.IP.String(), name
			return nil
		}
	}
	return fault.New(fault.NotReady, "use", fmt.Sprintf("network interface %q", name), "it has no address")
}

// HostVolume is a directory that the configuration offers.
type HostVolume struct {
	Name     string
	Path     string
	ReadOnly bool
}
