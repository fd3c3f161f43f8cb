// Package agent owns the composition: it is the only place that knows the server half, the node half and the surfaces,
// and wires them from a configuration. Only cmd/berth imports it.
package agent

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/client/csimanager/node"
	"berth/jobspec"
)

// Config is what an agent is started with: files first, then flags.
type Config struct {
	DataDir    string      `hcl:"data_dir"`
	BindAddr   string      `hcl:"bind_addr"`
	Name       string      `hcl:"name"`
	Datacenter string      `hcl:"datacenter"`
	Region     string      `hcl:"region"`
	LogLevel   string      `hcl:"log_level"`
	LogJSON    bool        `hcl:"log_json"`
	Ports      *Ports      `hcl:"ports,block"`
	Server     *ServerPart `hcl:"server,block"`
	Client     *ClientPart `hcl:"client,block"`
	Plugins    []*Plugin   `hcl:"plugin,block"`
	ACL        *ACLPart    `hcl:"acl,block"`

	dev     bool
	tempDir bool // data_dir was made for this run and goes with it
}

// Ports on which the agent listens.
type Ports struct {
	HTTP int `hcl:"http"`
}

// ServerPart configures the server half.
type ServerPart struct {
	Enabled         bool `hcl:"enabled"`
	BootstrapExpect int  `hcl:"bootstrap_expect"`
}

// ClientPart configures the node half.
type ClientPart struct {
	Enabled     bool              `hcl:"enabled"`
	NodeClass   string            `hcl:"node_class"`
	NodePool    string            `hcl:"node_pool"`
	Meta        map[string]string `hcl:"meta,map"`
	HostVolumes []*HostVolume     `hcl:"host_volume,block"`
	Reserved    *Reserved         `hcl:"reserved,block"`
	CPUTotal    int               `hcl:"cpu_total_compute"`
	MemoryTotal int               `hcl:"memory_total_mb"`
	MinPort     int               `hcl:"min_dynamic_port"`
	MaxPort     int               `hcl:"max_dynamic_port"`
	// LocalCSI runs the bundled storage plugin as a system job.
	LocalCSI bool `hcl:"local_csi"`
}

// HostVolume is a directory of the node that jobs may mount by name.
type HostVolume struct {
	Name     string `hcl:"name,label"`
	Path     string `hcl:"path"`
	ReadOnly bool   `hcl:"read_only"`
}

// Reserved is kept back from allocations.
type Reserved struct {
	CPU      int    `hcl:"cpu"`
	MemoryMB int    `hcl:"memory"`
	DiskMB   int    `hcl:"disk"`
	Ports    string `hcl:"reserved_ports"`
}

// Plugin configures a task driver.
type Plugin struct {
	Name   string        `hcl:"name,label"`
	Config *PluginConfig `hcl:"config,block"`
}

// PluginConfig holds the options of the built-in drivers.
type PluginConfig struct {
	Enabled      *bool    `hcl:"enabled"`        // raw_exec
	AllowCSINode *bool    `hcl:"allow_csi_node"` // exec: node-role storage plugins may act on the node
	AllowCaps    []string `hcl:"allow_caps"`     // exec
}

// ACLPart is refused when it asks for what is not built.
type ACLPart struct {
	Enabled bool `hcl:"enabled"`
}

// Parse reads the command line and the files that it names. Every error says where it stands.
func Parse(args []string, stderr io.Writer) (*Config, error) {
	cfg := &Config{}
	var files multi
	var flags Config
	flags.Ports = &Ports{}
	fs := flag.NewFlagSet("berth agent", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&cfg.dev, "dev", false, "run a server and a node for trying out: loopback only, no tokens, tasks end with the agent")
	fs.Var(&files, "config", "configuration file, or directory of *.hcl and *.json files; may be given several times")
	fs.StringVar(&flags.DataDir, "data-dir", "", "directory for all state (default with -dev: a temporary one)")
	fs.StringVar(&flags.BindAddr, "bind", "", "address to listen on (default 127.0.0.1)")
	fs.StringVar(&flags.Name, "node", "", "name of this agent (default: the host's name)")
	fs.StringVar(&flags.Datacenter, "dc", "", "datacenter (default dc1)")
	fs.StringVar(&flags.Region, "region", "", "region (default global)")
	fs.StringVar(&flags.LogLevel, "log-level", "", "trace, debug, info, warn or error (default info)")
	fs.BoolVar(&flags.LogJSON, "log-json", false, "write the log as JSON")
	fs.IntVar(&flags.Ports.HTTP, "http-port", 0, "port of the HTTP API (default 4646)")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fault.New(fault.Invalid, "", "berth agent", fmt.Sprintf("unexpected argument %q", fs.Arg(0)))
	}
	for _, f := range files {
		if err := cfg.readPath(f); err != nil {
			return nil, err
		}
	}
	cfg.override(&flags)
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	return cfg, cfg.check()
}

type multi []string

func (m *multi) String() string     { return strings.Join(*m, ",") }
func (m *multi) Set(s string) error { *m = append(*m, s); return nil }

func (c *Config) readPath(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "read configuration", path)
	}
	if !st.IsDir() {
		return c.readFile(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "read configuration", path)
	}
	found := false
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".hcl" || ext == ".json") {
			found = true
			if err := c.readFile(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	if !found {
		return fault.New(fault.Invalid, "read configuration", path, "the directory holds no *.hcl or *.json file")
	}
	return nil
}

// readFile merges a file over what was read before: a value that is set replaces.
func (c *Config) readFile(path string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "read configuration", path)
	}
	var f Config
	if err := jobspec.DecodeFile(path, src, &f); err != nil {
		return fault.Wrap(err, fault.Invalid, "", "")
	}
	c.override(&f)
	return nil
}

func pick[T comparable](into *T, from T) {
	var zero T
	if from != zero {
		*into = from
	}
}

func (c *Config) override(f *Config) {
	pick(&c.DataDir, f.DataDir)
	pick(&c.BindAddr, f.BindAddr)
	pick(&c.Name, f.Name)
	pick(&c.Datacenter, f.Datacenter)
	pick(&c.Region, f.Region)
	pick(&c.LogLevel, f.LogLevel)
	pick(&c.LogJSON, f.LogJSON)
	if f.Ports != nil && f.Ports.HTTP != 0 {
		c.Ports = f.Ports
	}
	pick(&c.Server, f.Server)
	pick(&c.Client, f.Client)
	pick(&c.ACL, f.ACL)
	c.Plugins = append(c.Plugins, f.Plugins...)
}

func (c *Config) defaults() error {
	if c.dev {
		if c.Server == nil {
			c.Server = &ServerPart{Enabled: true}
		}
		if c.Client == nil {
			c.Client = &ClientPart{Enabled: true, LocalCSI: true}
		}
		if c.DataDir == "" {
			dir, err := os.MkdirTemp("", "berth-")
			if err != nil {
				return fault.Wrap(err, fault.Internal, "create", "a temporary data_dir")
			}
			c.DataDir, c.tempDir = dir, true
		}
	}
	if c.Server == nil {
		c.Server = &ServerPart{}
	}
	if c.Client == nil {
		c.Client = &ClientPart{}
	}
	if c.Ports == nil {
		c.Ports = &Ports{}
	}
	fill(&c.BindAddr, "127.0.0.1")
	fill(&c.Datacenter, "dc1")
	fill(&c.Region, "global")
	fill(&c.LogLevel, "info")
	fill(&c.Client.NodePool, "default")
	if c.Ports.HTTP == 0 {
		c.Ports.HTTP = 4646
	}
	if c.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return fault.Wrap(err, fault.Internal, "read", "the host's name")
		}
		c.Name = name
	}
	if c.DataDir != "" {
		abs, err := filepath.Abs(c.DataDir)
		if err != nil {
			return fault.Wrap(err, fault.Invalid, "use", "data_dir "+c.DataDir)
		}
		c.DataDir = abs
	}
	return nil
}

func fill(p *string, v string) {
	if *p == "" {
		*p = v
	}
}

// check refuses what cannot work, naming the setting, the reason and the way out.
func (c *Config) check() error {
	bad := func(what, why, hint string) error {
		return fault.WithHint(fault.New(fault.Invalid, "configure", what, why), hint)
	}
	switch {
	case c.DataDir == "":
		return bad("data_dir", "it is not set", "write data_dir = \"/var/lib/berth\" in a file, or try out with berth agent -dev")
	case !c.Server.Enabled && !c.Client.Enabled:
		return bad("server and client", "neither is enabled", "write server { enabled = true } or client { enabled = true }, or try out with berth agent -dev")
	case !c.Server.Enabled || !c.Client.Enabled:
		return bad("server and client", "joining agents over the network is not built yet", "enable both in one agent")
	case c.Server.BootstrapExpect > 1:
		return bad("server bootstrap_expect", "clusters of several servers are not built yet", "leave it out or write 1")
	case c.ACL != nil && c.ACL.Enabled:
		return bad("acl enabled", "access control is not built yet", "leave it out; the API listens on the loopback only")
	case !net.ParseIP(c.BindAddr).IsLoopback():
		return bad("bind_addr "+c.BindAddr, "without access control and encryption the API may listen on the loopback only", "use 127.0.0.1 or ::1")
	case c.Ports.HTTP < 1 || c.Ports.HTTP > 65535:
		return bad("ports http", strconv.Itoa(c.Ports.HTTP)+" is not between 1 and 65535", "use 4646")
	case !slices.Contains([]string{"trace", "debug", "info", "warn", "error"}, c.LogLevel):
		return bad("log_level "+c.LogLevel, "it is not known", "use trace, debug, info, warn or error")
	case c.Client.NodePool != "default":
		return bad("client node_pool", "there is one pool, default", "leave it out")
	}
	for _, p := range c.Plugins {
		if p.Name != "raw_exec" && p.Name != "exec" {
			return bad("plugin \""+p.Name+"\"", "there is no such task driver", "there are exec and raw_exec")
		}
	}
	for _, v := range c.Client.HostVolumes {
		if !filepath.IsAbs(v.Path) {
			return bad("host_volume \""+v.Name+"\"", "its path must be absolute, is \""+v.Path+"\"", "write path = \"/…\"")
		}
	}
	return node.CheckDataDir(c.DataDir)
}

func (c *Config) shimDir() string { return filepath.Join(c.DataDir, "shim") }

func (c *Config) plugin(name string) PluginConfig {
	for i := len(c.Plugins) - 1; i >= 0; i-- {
		if c.Plugins[i].Name == name && c.Plugins[i].Config != nil {
			return *c.Plugins[i].Config
		}
	}
	return PluginConfig{}
}

// reservedPorts reads "22,80,8000-8010".
func reservedPorts(list string) ([]int, error) {
	var out []int
	for _, part := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		lo, hi, span := strings.Cut(part, "-")
		if !span {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || a < 1 || b > 65535 || a > b {
			return nil, fault.New(fault.Invalid, "configure", "reserved_ports", fmt.Sprintf("%q is not a port or a range", part))
		}
		for p := a; p <= b; p++ {
			out = append(out, p)
		}
	}
	return out, nil
}
