package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/agent/datadir"
	"berth/internal/agent/network"
	"berth/internal/agent/nodenetwork"
	"berth/internal/agent/plugins"
	"berth/internal/base/fault"
	"berth/internal/client/allocdir"
	"berth/internal/client/csimanager"
	"berth/internal/client/host"
	"berth/internal/client/suspects"
	"berth/internal/model/cores"
	"berth/internal/model/partition"
	"berth/internal/model/trust"
	"berth/internal/server/keyring"
)

func (c *Config) defaults() error {
	cl := block(&c.Client)
	block(&c.Server)
	block(&c.Ports)
	block(&c.Addresses)
	block(&c.Advertise)
	block(&c.Server.ServerJoin)
	block(&c.API)
	block(&c.ACL)
	block(&c.Limits)
	if c.dev {
		c.Server.Enabled, cl.Enabled = true, true
	} else {
		fill(&c.API.Socket, api.DefaultSocket)
		fill(&c.DataDir, usualDataDir(os.Geteuid()))
	}
	c.ACL.Default(!c.dev)
	if cl.LocalCSI == nil {
		cl.LocalCSI = &c.dev
	}
	fill(&c.BindAddr, "127.0.0.1")
	fill(&c.Datacenter, "dc1")
	fill(&c.Region, "global")
	fill(&c.LogLevel, "info")
	fill(&cl.NodePool, "default")
	fill(&c.Ports.HTTP, 4646)
	fill(&c.Ports.RPC, network.DefaultPort)
	fill(&cl.MinPort, host.DefaultMinDynamicPort)
	fill(&cl.MaxPort, host.DefaultMaxDynamicPort)
	c.LogLevel = strings.ToLower(c.LogLevel)
	if c.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return fault.Wrap(err, fault.Internal, "read", "the host's name")
		}
		c.Name = name
	}
	c.unresolved = c.resolve()
	return nil
}

// usualDataDir is where an agent in service keeps its state if its configuration does not say. Only root has a usual
// place; empty: there is none.
func usualDataDir(uid int) string {
	if uid != 0 {
		return ""
	}
	return "/var/lib/berth"
}

func fill[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// resolve makes data_dir the path that the kernel knows: its mount table tells no symbolic links, and volumes are
// verified against it.
func (c *Config) resolve() error {
	if c.DataDir == "" {
		return nil
	}
	abs, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "use", "data_dir "+c.DataDir)
	}
	there, missing := abs, ""
	for {
		real, err := filepath.EvalSymlinks(there)
		switch {
		case err == nil:
			c.DataDir = filepath.Join(real, missing)
			return nil
		case !os.IsNotExist(err) || there == "/":
			return fault.Wrap(err, fault.Invalid, "use", "data_dir "+c.DataDir)
		}
		if _, err := os.Lstat(there); err == nil {
			return fault.New(fault.Invalid, "use", "data_dir "+c.DataDir,
				there+" is a symbolic link that leads nowhere")
		}
		there, missing = filepath.Dir(there), filepath.Join(filepath.Base(there), missing)
	}
}

func bad(what, why, hint string) error {
	return fault.WithHint(fault.New(fault.Invalid, "configure", what, why), hint)
}

// checkKeyring reads the recovery keys.
func (c *Config) checkKeyring() error {
	if c.Keyring == nil {
		return nil
	}
	var err error
	c.recovery, err = keyring.RecoveryOf(c.Keyring.Recovery)
	return fault.Note(err, "configure", "keyring recovery")
}

// checkTLS reads the certificate of the API's port.
func (c *Config) checkTLS() error {
	var err error
	c.certs, err = c.TLS.Load()
	return err
}

// check refuses what cannot work, naming each setting, the reason and the way out. What is on the disk is looked at
// when the settings are right.
func (c *Config) check() error {
	errs := []error{c.unresolved, c.checkHalves(), c.checkData(), c.checkAddress()}
	if !slices.Contains(logLevels, c.LogLevel) {
		errs = append(errs, bad("log_level "+c.LogLevel, "it is not known", "use trace, debug, info, warn or error"))
	}
	errs = append(errs, c.Client.check(), c.checkNetwork(), c.checkIntervals(), c.checkDisks(), c.checkLimits(),
		c.checkDownloads(), c.checkAPI(), c.checkKeyring(), c.checkTLS(), c.ACL.Check(), c.Audit.Check(),
		c.Consul.Check())
	for _, p := range c.Plugins {
		errs = append(errs, p.Check(c.PluginDir))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.checkDataDir()
}

func (c *Config) checkHalves() error {
	var errs []error
	if !c.Server.Enabled && !c.Client.Enabled {
		errs = append(errs, bad("server and client", "neither is enabled",
			"write server { enabled = true } and client { enabled = true }, or try out with berth agent -dev"))
	}
	if c.Server.BootstrapExpect < 0 || c.Server.BootstrapExpect > maxServers {
		errs = append(errs, bad("server bootstrap_expect",
			fmt.Sprintf("%d is no number of servers", c.Server.BootstrapExpect),
			"write 3 or 5; more servers make writes slower, and no safer"))
	}
	return errors.Join(errs...)
}

func (c *Config) checkData() error {
	switch {
	case c.DataDir == "" && !c.dev:
		return bad("data_dir", "it is not set",
			"write data_dir = \"/var/lib/berth\" in a file, or try out with berth agent -dev")
	case filepath.Dir(c.DataDir) == c.DataDir:
		return bad("data_dir "+c.DataDir, "it is the root of the file system",
			"use a directory of its own, such as /var/lib/berth")
	}
	return nil
}

func (c *Config) checkAddress() error {
	var errs []error
	switch ip := net.ParseIP(c.BindAddr); {
	case ip == nil:
		errs = append(errs, bad("bind_addr "+c.BindAddr, "it is no IP address", "use 127.0.0.1, ::1 or 0.0.0.0"))
	case ip.IsLoopback():
	case !c.TLS.On():
		errs = append(errs, bad("bind_addr "+c.BindAddr, "without encryption the API may listen on the loopback only",
			"use 127.0.0.1 or ::1; or give the port a certificate: tls { http = true, cert_file, key_file }"))
	case !c.lists() && c.API.TokenFile == "" && !c.TLS.Verifies():
		errs = append(errs, bad("bind_addr "+c.BindAddr, "whoever reaches the port could run anything on this machine",
			"set acl { enabled = true }, api { token_file = … } or tls { verify_https_client = true }"))
	}
	if !validPort(c.Ports.HTTP) {
		errs = append(errs, bad("ports http", strconv.Itoa(c.Ports.HTTP)+" is not between 1 and 65535", "use 4646"))
	}
	return errors.Join(errs...)
}

// Bounds of how often plugins are asked: often enough to be of use, and seldom enough that asking is no load.
const (
	minVolumeStats, maxVolumeStats = 5 * time.Second, time.Hour
	minVolumeList, maxVolumeList   = time.Minute, 24 * time.Hour
	minKill, maxKill               = time.Second, 365 * 24 * time.Hour
)

// maxServers is how many servers a cluster can be said to have.
const maxServers = 9

func (c *Config) checkIntervals() error {
	var errs []error
	for _, i := range []struct {
		what     string
		set      *time.Duration
		min, max time.Duration
		usual    string
	}{
		{"client volume_stats_interval", c.Client.VolumeStatsInterval, minVolumeStats, maxVolumeStats, "1m"},
		{"client max_kill_timeout", c.Client.MaxKillTimeout, minKill, maxKill, "no cap"},
		{"client crash_window", c.Client.CrashWindow, 0, time.Hour, suspects.DefaultWindow.String()},
		{"server server_join retry_interval", c.Server.ServerJoin.RetryInterval, 100 * time.Millisecond, time.Hour,
			"half a second and more"},
		{"server certificate_lifetime", c.Server.CertificateLifetime, trust.MinLifetime, trust.MaxLifetime,
			trust.Lifetime.String()},
		{"server volume_list_interval", c.Server.VolumeListInterval, minVolumeList, maxVolumeList, "10m"},
	} {
		if i.set != nil && (*i.set < i.min || *i.set > i.max) {
			errs = append(errs, bad(i.what, fmt.Sprintf("%s is not between %s and %s", *i.set, i.min, i.max),
				"leave it out for "+i.usual))
		}
	}
	return errors.Join(append(errs, c.Server.Settings.Check())...)
}

func (c *Config) checkDisks() error {
	const what = "client ephemeral_disk enforce"
	switch e := c.enforced(); e {
	case enforceSweep, enforceNone:
		return nil
	case enforceImage:
		if c.DataDir == "" {
			return bad(what, "images outlive the agent, and its data_dir does not", "name a data_dir")
		}
		return fault.Note(allocdir.CanEnclose(), "configure", what+` = "image"`)
	case enforceQuota:
		if c.DataDir == "" {
			return bad(what, "the kernel counts by directories of data_dir, and there is none", "name a data_dir")
		}
		return fault.Note(allocdir.CanQuota(c.DataDir), "configure", what+` = "quota"`)
	default:
		return bad(what, fmt.Sprintf("%q is no way to hold tasks to their disks", e),
			`write "sweep" (the default), "image", "quota" or "none"`)
	}
}

// maxDataDir is the longest data_dir whose shims can still be reached: a socket's path has 107 bytes on Linux.
const maxDataDir = 107 - len("/shim/") - len("00000000-0000-0000-0000-000000000000.sock")

func (c *Config) checkDataDir() error {
	if n := len(c.DataDir); n > maxDataDir {
		return bad("data_dir "+c.DataDir,
			fmt.Sprintf(
				"its path has %d bytes, so the paths of sockets below it would exceed the 107 bytes of the kernel", n),
			fmt.Sprintf("choose a data_dir of at most %d bytes", maxDataDir))
	}
	return csimanager.CheckDataDir(c.DataDir)
}

// makeTemp gives a -dev agent without a data_dir one that goes with it.
func (c *Config) makeTemp() error {
	dir, err := datadir.MakeTemp()
	if err != nil {
		return fault.Wrap(err, fault.Internal, "create", "a temporary data_dir")
	}
	c.DataDir, c.tempDir = dir, true
	if err := errors.Join(c.resolve(), c.checkDataDir()); err != nil {
		return errors.Join(fault.WithHint(err, "set TMPDIR or -data-dir"), os.Remove(dir))
	}
	return nil
}

func (c *ClientBlock) check() error {
	var errs []error
	if err := partition.OfNode(c.NodePool); err != nil {
		errs = append(errs, bad("client node_pool "+c.NodePool, err.Error(), "leave it out for default"))
	}
	if !validPort(c.MinPort) || !validPort(c.MaxPort) || c.MinPort > c.MaxPort {
		errs = append(errs, bad("client min_dynamic_port and max_dynamic_port",
			fmt.Sprintf("%d to %d is no range of ports", c.MinPort, c.MaxPort),
			fmt.Sprintf("leave them out for %d to %d", host.DefaultMinDynamicPort, host.DefaultMaxDynamicPort)))
	}
	if c.CPUTotal < 0 || c.MemoryTotal < 0 {
		errs = append(errs, bad("client cpu_total_compute and memory_total_mb", "they must not be negative",
			"leave them out to use what the machine has"))
	}
	errs = append(errs, c.checkCaps(), c.networks().Check(reservedPorts))
	if r := c.Reserved; r != nil {
		if r.CPU < 0 || r.MemoryMB < 0 || r.DiskMB < 0 {
			errs = append(errs, bad("client reserved", "cpu, memory and disk must not be negative",
				"leave out what shall not be kept back"))
		}
		_, wrong := cores.Parse(r.Cores)
		_, err := reservedPorts(r.Ports)
		errs = append(errs, err, fault.Note(wrong, "configure", "client reserved cores"))
	}
	for _, v := range c.HostVolumes {
		if !filepath.IsAbs(v.Path) {
			errs = append(errs, bad("host_volume \""+v.Name+"\"", "its path must be absolute, is \""+v.Path+"\"",
				"write path = \"/…\""))
		}
	}
	return errors.Join(errs...)
}

// networks is what the block says of the node's networks.
func (c *ClientBlock) networks() nodenetwork.Settings {
	return nodenetwork.Settings{
		Bridge:  c.BridgeName,
		Subnet:  c.BridgeSubnet,
		Subnet6: c.BridgeSubnet6,
		Hairpin: orDev(c.BridgeHairpin, false),
		Hosts:   c.HostNetworks,
		CNIPath: c.CNIPath,
		CNIDir:  c.CNIDir,
	}
}

// checkCaps refuses caps below what a task must have, and above what the kernel takes: those would cap nothing.
func (c *ClientBlock) checkCaps() error {
	var errs []error
	for _, o := range []struct {
		what        string
		set         *int
		least, most int
	}{
		{"client max_memory_max", c.MaxMemoryMax, 10, 1 << 40},
		{"client max_pids", c.MaxPIDs, 1, 1 << 22}, // PID_MAX_LIMIT
	} {
		if o.set != nil && (*o.set < o.least || *o.set > o.most) {
			errs = append(errs, bad(o.what, fmt.Sprintf("%d is not between %d and %d", *o.set, o.least, o.most),
				"leave it out for no cap"))
		}
	}
	return errors.Join(errs...)
}

// plugin is a driver's block, or an empty one.
func (c *Config) plugin(name string) *plugins.Plugin {
	if i := slices.IndexFunc(c.Plugins, func(p *plugins.Plugin) bool { return p.Name == name }); i >= 0 {
		return c.Plugins[i]
	}
	return &plugins.Plugin{Name: name}
}

func (c *Config) shimDir() string { return filepath.Join(c.DataDir, "shim") }

func validPort(p int) bool { return p >= 1 && p <= 65535 }

// reservedPorts reads "22,80,8000-8010".
func reservedPorts(list string) ([]int, error) {
	var out []int
	var errs []error
	for _, ports := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		lo, hi, span := strings.Cut(ports, "-")
		if !span {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || !validPort(a) || !validPort(b) || a > b {
			errs = append(errs, bad("client reserved_ports", fmt.Sprintf("%q is no port and no range of ports", ports),
				"write them like \"22,80,8000-8010\""))
			continue
		}
		for p := a; p <= b; p++ {
			out = append(out, p)
		}
	}
	return out, errors.Join(errs...)
}
