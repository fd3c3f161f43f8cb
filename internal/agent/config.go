// Package agent owns the composition: it is the only place that knows the server half, the node half and the surfaces,
// and wires them from a configuration. Only cmd/berth imports it.
package agent

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/internal/agent/accesslists"
	"berth/internal/agent/apitls"
	"berth/internal/agent/auditlog"
	"berth/internal/agent/consulblock"
	"berth/internal/agent/help"
	"berth/internal/agent/nodenetwork"
	"berth/internal/agent/overlay"
	"berth/internal/agent/places"
	"berth/internal/agent/plugins"
	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/server/keyring"
	"berth/jobspec/hclfile"
)

// Config is what an agent is started with: files first, then flags.
type Config struct {
	DataDir    string `hcl:"data_dir"`
	PluginDir  string `hcl:"plugin_dir"`
	BindAddr   string `hcl:"bind_addr"`
	Name       string `hcl:"name"`
	Datacenter string `hcl:"datacenter"`
	Region     string `hcl:"region"`
	LogLevel   string `hcl:"log_level"`
	LogJSON    bool   `hcl:"log_json"`
	// By which signals the agent leaves its cluster; see package leaving.
	LeaveOnInterrupt bool `hcl:"leave_on_interrupt"`
	LeaveOnTerminate bool `hcl:"leave_on_terminate"`

	Ports     *Ports             `hcl:"ports,block"`
	Addresses *Addresses         `hcl:"addresses,block"`
	Advertise *Advertise         `hcl:"advertise,block"`
	Server    *ServerBlock       `hcl:"server,block"`
	Client    *ClientBlock       `hcl:"client,block"`
	Plugins   []*plugins.Plugin  `hcl:"plugin,block"`
	ACL       *accesslists.Block `hcl:"acl,block"`
	Audit     *auditlog.Block    `hcl:"audit,block"`
	Consul    *consulblock.Block `hcl:"consul,block"`
	API       *APIBlock          `hcl:"api,block"`
	Limits    *LimitsBlock       `hcl:"limits,block"`
	Keyring   *KeyringBlock      `hcl:"keyring,block"`
	TLS       *apitls.Block      `hcl:"tls,block"`

	args       []string // by which it was read
	unresolved error    // what keeps data_dir from being known by its kernel's path
	dev        bool
	tempDir    bool          // data_dir was made for this run and goes with it
	portAsked  bool          // somebody named the port of the API or its address
	token      redact.Secret // of api token_file
	recovery   keyring.Recovery
	certs      *apitls.Certificates // of the port of the API; nil: it speaks no HTTPS
}

// Parse reads the command line and the files that it names, and makes a data_dir for this run where none is named.
// Every error says where it stands.
func Parse(args []string, stderr io.Writer) (*Config, error) {
	cfg, err := read(args, stderr)
	if err != nil {
		return nil, err
	}
	if cfg.DataDir == "" {
		if err := cfg.makeTemp(); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// read reads the command line and the files that it names, and changes nothing.
func read(args []string, stderr io.Writer) (*Config, error) {
	cfg := &Config{args: args}
	var files multi
	var flags Config
	flags.Ports = &Ports{}
	fs := flag.NewFlagSet("berth agent", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&cfg.dev, "dev", false, "run a server and a node to try out: open on the loopback, tasks end with it")
	fs.Var(&files, "config",
		"`path` of a configuration file, or directory of *.hcl and *.json files; may be given several times")
	fs.StringVar(&flags.DataDir, "data-dir", "",
		"`directory` for all state (default of root: /var/lib/berth; with -dev a temporary one)")
	fs.StringVar(&flags.BindAddr, "bind", "", "`address` of the port of the HTTP API (default 127.0.0.1)")
	fs.StringVar(&flags.Name, "node", "", "`name` of this agent (default: the host's name)")
	fs.StringVar(&flags.Datacenter, "dc", "", "`datacenter` (default dc1)")
	fs.StringVar(&flags.Region, "region", "", "`region` (default global)")
	fs.StringVar(&flags.LogLevel, "log-level", "", "`level`: trace, debug, info, warn or error (default info)")
	fs.BoolVar(&flags.LogJSON, "log-json", false, "write the log as JSON")
	fs.IntVar(&flags.Ports.HTTP, "http-port", 0, "`port` of the HTTP API (default 4646); see below for who has one")
	fs.Usage = func() { help.Write(fs) }
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fault.New(fault.Invalid, "", "berth agent", fmt.Sprintf("unexpected argument %q", fs.Arg(0)))
	}
	written := places.Places{}
	for _, f := range files {
		if err := cfg.readPath(f, written); err != nil {
			return nil, err
		}
	}
	cfg.override(&flags)
	fs.Visit(func(f *flag.Flag) { written.Forget(byFlag[f.Name]) })
	cfg.portAsked = cfg.BindAddr != "" || cfg.Ports.HTTP != 0
	if err := cfg.defaults(); err != nil {
		return nil, written.Note(err)
	}
	if err := cfg.check(); err != nil {
		return nil, written.Note(err)
	}
	return cfg, nil
}

// byFlag are the settings that flags have the last word on.
var byFlag = map[string]string{"data-dir": "data_dir", "bind": "bind_addr", "node": "name", "dc": "datacenter",
	"region": "region", "log-level": "log_level", "log-json": "log_json", "http-port": "ports http"}

type multi []string

func (m *multi) String() string     { return strings.Join(*m, ",") }
func (m *multi) Set(s string) error { *m = append(*m, s); return nil }

func (c *Config) readPath(path string, written places.Places) error {
	st, err := os.Stat(path)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "read configuration", path)
	}
	if !st.IsDir() {
		return c.readFile(path, written)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "read configuration", path)
	}
	found := false
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".hcl" || ext == ".json") {
			found = true
			if err := c.readFile(filepath.Join(path, e.Name()), written); err != nil {
				return err
			}
		}
	}
	if !found {
		return fault.New(fault.Invalid, "read configuration", path, "the directory holds no *.hcl or *.json file")
	}
	return nil
}

// readFile merges a file over what was read before: a value that is set replaces. It notes where the file has what.
func (c *Config) readFile(path string, written places.Places) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "read configuration", path)
	}
	var f Config
	report := hclfile.NewReport()
	decoder := hclfile.DecodeInto(report, path, src, &f, refusals)
	if err := report.Err(); err != nil {
		return fault.Wrap(err, fault.Invalid, "", "")
	}
	if name := f.twice(); name != "" {
		return fault.New(fault.Invalid, "read configuration", path, name+" is there twice")
	}
	written.Read(decoder.At, &f)
	c.override(&f)
	return nil
}

// override lays f over c, value by value and block by block: what f sets replaces, what it leaves out stays. Blocks
// with a name replace the one of the same name.
func (c *Config) override(f *Config) {
	overlay.Pick(&c.DataDir, f.DataDir)
	overlay.Pick(&c.PluginDir, f.PluginDir)
	overlay.Pick(&c.BindAddr, f.BindAddr)
	overlay.Pick(&c.Name, f.Name)
	overlay.Pick(&c.Datacenter, f.Datacenter)
	overlay.Pick(&c.Region, f.Region)
	overlay.Pick(&c.LogLevel, f.LogLevel)
	overlay.Pick(&c.LogJSON, f.LogJSON)
	overlay.Pick(&c.LeaveOnInterrupt, f.LeaveOnInterrupt)
	overlay.Pick(&c.LeaveOnTerminate, f.LeaveOnTerminate)
	if f.Ports != nil {
		overlay.Pick(&block(&c.Ports).HTTP, f.Ports.HTTP)
		overlay.Pick(&c.Ports.RPC, f.Ports.RPC)
	}
	if f.Addresses != nil {
		overlay.Pick(&block(&c.Addresses).RPC, f.Addresses.RPC)
	}
	if f.Advertise != nil {
		overlay.Pick(&block(&c.Advertise).RPC, f.Advertise.RPC)
	}
	if f.Server != nil {
		overlay.Pick(&block(&c.Server).Enabled, f.Server.Enabled)
		overlay.Pick(&c.Server.BootstrapExpect, f.Server.BootstrapExpect)
		overlay.Pick(&c.Server.ServerJoin, f.Server.ServerJoin)
		overlay.Pick(&c.Server.JoinTokenFile, f.Server.JoinTokenFile)
		overlay.Pick(&c.Server.CertificateLifetime, f.Server.CertificateLifetime)
		overlay.Pick(&c.Server.OIDCIssuer, f.Server.OIDCIssuer)
		overlay.Pick(&c.Server.VolumeListInterval, f.Server.VolumeListInterval)
		overlay.Pick(&c.Server.AlphaGetVolume, f.Server.AlphaGetVolume)
		c.Server.Settings.Override(&f.Server.Settings)
	}
	if f.ACL != nil {
		block(&c.ACL).Override(f.ACL)
	}
	if f.Audit != nil {
		block(&c.Audit).Override(f.Audit)
	}
	if f.Consul != nil {
		block(&c.Consul).Override(f.Consul)
	}
	if f.API != nil {
		block(&c.API).override(f.API)
	}
	if f.Keyring != nil {
		block(&c.Keyring).Recovery = f.Keyring.Recovery
	}
	if f.TLS != nil {
		block(&c.TLS).Override(f.TLS)
	}
	if f.Limits != nil {
		block(&c.Limits).override(f.Limits)
	}
	if f.Client != nil {
		block(&c.Client).override(f.Client)
	}
	for _, p := range f.Plugins {
		c.Plugins = replace(c.Plugins, p, func(q *plugins.Plugin) bool { return q.Name == p.Name })
	}
}

func (c *ClientBlock) override(f *ClientBlock) {
	overlay.Pick(&c.Enabled, f.Enabled)
	overlay.Pick(&c.NodeClass, f.NodeClass)
	overlay.Pick(&c.NodePool, f.NodePool)
	overlay.Pick(&c.CPUTotal, f.CPUTotal)
	overlay.Pick(&c.MemoryTotal, f.MemoryTotal)
	overlay.Pick(&c.MinPort, f.MinPort)
	overlay.Pick(&c.MaxPort, f.MaxPort)
	overlay.Pick(&c.LocalCSI, f.LocalCSI)
	overlay.Pick(&c.JoinTokenFile, f.JoinTokenFile)
	if f.Servers != nil {
		c.Servers = f.Servers
	}
	overlay.Pick(&c.VolumeStatsInterval, f.VolumeStatsInterval)
	overlay.Pick(&c.MaxKillTimeout, f.MaxKillTimeout)
	overlay.Pick(&c.MaxMemoryMax, f.MaxMemoryMax)
	overlay.Pick(&c.MaxPIDs, f.MaxPIDs)
	overlay.Pick(&c.CrashWindow, f.CrashWindow)
	overlay.Pick(&c.Reserved, f.Reserved)
	overlay.Pick(&c.NetworkInterface, f.NetworkInterface)
	overlay.Pick(&c.BridgeName, f.BridgeName)
	overlay.Pick(&c.CNIPath, f.CNIPath)
	overlay.Pick(&c.CNIDir, f.CNIDir)
	overlay.Pick(&c.BridgeSubnet, f.BridgeSubnet)
	overlay.Pick(&c.BridgeSubnet6, f.BridgeSubnet6)
	overlay.Pick(&c.BridgeHairpin, f.BridgeHairpin)
	for _, n := range f.HostNetworks {
		c.HostNetworks = replace(c.HostNetworks, n, func(o *nodenetwork.HostNetwork) bool { return o.Name == n.Name })
	}
	overlay.Pick(&c.EphemeralDisk, f.EphemeralDisk)
	if f.Artifact != nil {
		block(&c.Artifact).Override(f.Artifact)
	}
	if c.Meta == nil {
		c.Meta = f.Meta
	} else {
		maps.Copy(c.Meta, f.Meta)
	}
	for _, v := range f.HostVolumes {
		c.HostVolumes = replace(c.HostVolumes, v, func(w *HostVolume) bool { return w.Name == v.Name })
	}
}

// twice names a block that one file has twice, where the second would hide the first.
func (c *Config) twice() string {
	seen := map[string]bool{}
	var names []string
	for _, p := range c.Plugins {
		names = append(names, "plugin \""+p.Name+"\"")
	}
	if c.Client != nil {
		for _, v := range c.Client.HostVolumes {
			names = append(names, "host_volume \""+v.Name+"\"")
		}
		for _, n := range c.Client.HostNetworks {
			names = append(names, "host_network \""+n.Name+"\"")
		}
	}
	for _, n := range names {
		if seen[n] {
			return n
		}
		seen[n] = true
	}
	return ""
}

// block returns the block behind p and makes it when it is missing.
func block[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

func replace[T any](list []T, v T, same func(T) bool) []T {
	if i := slices.IndexFunc(list, same); i >= 0 {
		list[i] = v
		return list
	}
	return append(list, v)
}
