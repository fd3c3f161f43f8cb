package agent

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/jobspec/hclfile"
)

// write makes a file below a fresh directory and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func parse(t *testing.T, args ...string) *Config {
	t.Helper()
	cfg, err := Parse(args, io.Discard)
	if err != nil {
		t.Fatalf("berth agent %s: %v", strings.Join(args, " "), err)
	}
	if cfg.tempDir {
		t.Cleanup(func() {
			if err := os.RemoveAll(cfg.DataDir); err != nil {
				t.Error(err)
			}
		})
	}
	return cfg
}

// base is a file with which an agent runs.
const base = `
data_dir = "/var/lib/berth-of-a-test"
server { enabled = true }
client { enabled = true }
`

func TestTheHelpOfAnAgentHasExamplesAndEveryFlagInAGroup(t *testing.T) {
	var out strings.Builder
	if _, err := Parse([]string{"-h"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"Examples:\n  berth agent -dev", "-data-dir <directory>\n", "-config <path>\n",
		"-dev\n", "-node <name>\n", "-dc <datacenter>\n", "-region <region>\n", "-bind <address>\n",
		"-http-port <port>\n", "-log-level <level>\n", "-log-json\n", "local_csi = true"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q", want)
		}
	}
	if n := strings.Count(out.String(), "\n  -"); n != 10 {
		t.Errorf("%d flags are described", n)
	}
}

func TestDevNeedsNoFile(t *testing.T) {
	cfg := parse(t, "-dev")
	if !cfg.tempDir || !cfg.Server.Enabled || !cfg.Client.Enabled || !*cfg.Client.LocalCSI {
		t.Fatalf("-dev gives %+v", cfg)
	}
	if st, err := os.Stat(cfg.DataDir); err != nil || st.Mode().Perm() != 0o700 {
		t.Fatalf("the temporary data_dir: %v, %v", st, err)
	}
	if cfg.BindAddr != "127.0.0.1" || cfg.Ports.HTTP != 4646 || cfg.Region != "global" || cfg.Datacenter != "dc1" ||
		cfg.Name == "" {
		t.Fatalf("defaults are %+v", cfg)
	}
}

func TestAnAgentInServiceDoesNotRunTheBundledPluginUnasked(t *testing.T) {
	dir := t.TempDir()
	if cfg := parse(t, "-config", write(t, dir, "a.hcl", base)); *cfg.Client.LocalCSI {
		t.Error("local_csi is on without being asked for")
	}
	if cfg := parse(t, "-config",
		write(t, dir, "b.hcl",
			strings.Replace(base, "client { enabled = true }", "client {\n enabled = true\n local_csi = true\n}",
				1))); !*cfg.Client.LocalCSI {
		t.Error("local_csi = true was not heard")
	}
}

// Given the example of an agent in service, when it is read, then it runs the bundled plugin, with the driver that the
// plugin needs, and has no port.
func TestTheExampleOfAnAgentInServiceIsRead(t *testing.T) {
	cfg := parse(t, "-config", filepath.Join("..", "..", "examples", "agent.hcl"))
	if cfg.dev || !cfg.Server.Enabled || !cfg.Client.Enabled || !*cfg.Client.LocalCSI || cfg.portAsked ||
		!orDev(cfg.plugin("raw_exec").Options().Enabled, false) || cfg.API.Socket != "/run/berth/api.sock" {
		t.Fatalf("examples/agent.hcl gives %+v", cfg)
	}
}

// Given a setting that there is not, and none that is like it, when the file is read, then the error lists those that
// there are.
func TestASettingThatThereIsNotIsAnsweredWithThoseThatThereAre(t *testing.T) {
	path := write(t, t.TempDir(), "a.hcl", "client {\n nonsense = true\n}\n")
	_, err := Parse([]string{"-dev", "-config", path}, io.Discard)
	for _, name := range hclfile.SchemaOf(reflect.TypeFor[ClientBlock]()).Names() {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not in: %v", name, err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "local_csi") {
		t.Errorf("local_csi is not in: %v", err)
	}
}

// Given an agent in service whose configuration names no data_dir, then root's is at the usual place, and others are
// told to name one.
func TestTheUsualDataDirIsRoots(t *testing.T) {
	if root, other := usualDataDir(0), usualDataDir(1000); root != "/var/lib/berth" || other != "" {
		t.Errorf("root's is %q, another user's %q", root, other)
	}
	cfg, err := Parse([]string{"-config", write(t, t.TempDir(), "a.hcl", strings.Replace(base,
		`data_dir = "/var/lib/berth-of-a-test"`, "", 1))}, io.Discard)
	if os.Geteuid() != 0 {
		if err == nil || !strings.Contains(err.Error(), "data_dir: it is not set") {
			t.Errorf("as another user than root: %v", err)
		}
		return
	}
	if err != nil || cfg.DataDir != "/var/lib/berth" || cfg.tempDir {
		t.Errorf("as root: %+v, %v", cfg, err)
	}
}

func TestAFileBesideDevAddsToIt(t *testing.T) {
	path := write(t, t.TempDir(), "a.hcl", "client {\n host_volume \"media\" { path = \"/srv\" }\n}\n")
	cfg := parse(t, "-dev", "-config", path)
	if !cfg.Client.Enabled || !*cfg.Client.LocalCSI || len(cfg.Client.HostVolumes) != 1 {
		t.Fatalf("a client block beside -dev gives %+v", cfg.Client)
	}
	off := write(t, t.TempDir(), "b.hcl", `client { local_csi = false }`)
	if cfg := parse(t, "-dev", "-config", off); *cfg.Client.LocalCSI {
		t.Error("local_csi = false beside -dev was not heard")
	}
}

func TestLaterFilesAndThenFlagsWin(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "d/10.hcl", base+`
region = "first"
log_level = "DEBUG"
ports { http = 1111 }
plugin "raw_exec" {
  config { enabled = true }
}
`)
	write(t, dir, "d/20.json",
		`{"region": "second", "datacenter": "dc2", "client": {"node_class": "big", "meta": {"rack": "r1"}}}`)
	write(t, dir, "d/note.txt", `this is no configuration`)
	last := write(t, dir, "last.hcl", `
client {
  "node_class" = "bigger"
  meta = { "zone.name" = "z1" }
  host_volume "media" {
    path      = "/srv/media"
    read_only = true
  }
  reserved {
    cpu = 100
    reserved_ports = "22,8000-8002"
  }
}
plugin "raw_exec" {
  config { enabled = false }
}
`)
	cfg := parse(t, "-config", filepath.Join(dir, "d"), "-config", last, "-http-port", "2222", "-dc", "dc3")
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"a later file over an earlier one", cfg.Region, "second"},
		{"a flag over files", cfg.Datacenter, "dc3"},
		{"a flag over a block", cfg.Ports.HTTP, 2222},
		{"what later files leave out", cfg.DataDir, "/var/lib/berth-of-a-test"},
		{"a block that a later file adds to", cfg.Client.Enabled, true},
		{"a quoted name", cfg.Client.NodeClass, "bigger"},
		{"meta of both files", cfg.Client.Meta["rack"] + cfg.Client.Meta["zone.name"], "r1z1"},
		{"a level in capitals", cfg.LogLevel, "debug"},
		{"a host volume", *cfg.Client.HostVolumes[0], HostVolume{Name: "media", Path: "/srv/media", ReadOnly: true}},
		{"reserved processor", cfg.Client.Reserved.CPU, 100},
		{"a plugin of the same name", *cfg.plugin("raw_exec").Options().Enabled, false},
		{"one plugin", len(cfg.Plugins), 1},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	long := "/" + strings.Repeat("d", maxDataDir)
	for name, c := range map[string]struct {
		file string
		args []string
		want []string // all are in the message
	}{
		"syntax":             {"data_dir = \"/x\"\nserver {\n", nil, []string{"a.hcl:2:8"}},
		"a wrong type":       {"ports {\n  http = \"many\"\n}\n", nil, []string{"a.hcl:2:10", "http", "number"}},
		"an unknown setting": {"data_dri = \"/x\"\n", nil, []string{"a.hcl:1:1", `"data_dri"`, `"data_dir"`}},
		"an unknown block":   {base + "clinet { }\n", nil, []string{"a.hcl:5:1", `"clinet"`, `"client"`}},
		"what is not built": {base + "ui { enabled = true }\n", nil,
			[]string{"a.hcl:5:1", "ui", "not built", "leave it out"}},
		"a label missing": {base + "plugin { }\n", nil, []string{"a.hcl:5:1", "label"}},
		"twice in one file": {base + "plugin \"exec\" { }\nplugin \"exec\" { }\n", nil,
			[]string{"a.hcl", `plugin "exec" is there twice`}},
		"the root":     {base, []string{"-data-dir", "/"}, []string{"root of the file system"}},
		"too long":     {base, []string{"-data-dir", long}, []string{"61 bytes", "at most 60 bytes"}},
		"neither half": {"data_dir = \"/x\"\n", nil, []string{"neither is enabled", "-dev"}},
		"one half": {"data_dir = \"/x\"\nclient { enabled = true }\n", nil,
			[]string{"client servers", "no server", `servers = ["10.0.0.1:4647"]`}},
		"a bundled plugin without a node": {"data_dir = \"/x\"\nserver { enabled = true }\n" +
			"client { local_csi = true }\n", nil,
			[]string{"client local_csi", "this agent has no node", "client { enabled = true }"}},
		"servers beside a server": {strings.Replace(base, "client { enabled = true }",
			"client {\n enabled = true\n servers = [\"10.0.0.1\"]\n}", 1), nil,
			[]string{"has a server in the agent itself", "server { enabled = false }"}},
		"no address of a server": {"data_dir = \"/x\"\nclient {\n enabled = true\n servers = [\"a:b:c\"]\n}\n", nil,
			[]string{`client servers "a:b:c"`, "no address", "10.0.0.1:4647"}},
		"an open API without a server": {"data_dir = \"/x\"\nclient {\n enabled = true\n servers = [\"s\"]\n}\n" +
			"api { unsafe_open = true }\n", nil, []string{"do not take a node's word", "access control lists"}},
		"a bundled plugin without a server": {"data_dir = \"/x\"\nclient {\n enabled = true\n" +
			" servers = [\"s\"]\n local_csi = true\n}\n", nil, []string{"local_csi", "beside a server only"}},
		"a port for nodes without a server": {"data_dir = \"/x\"\nclient {\n enabled = true\n servers = [\"s\"]\n}\n" +
			"addresses { rpc = \"0.0.0.0\" }\n", nil, []string{"addresses rpc", "listens for no nodes"}},
		"a port for nodes to try out": {"addresses { rpc = \"0.0.0.0\" }\n", []string{"-dev"},
			[]string{"addresses rpc", "one machine"}},
		"a name to listen on": {base + "addresses { rpc = \"here\" }\n", nil,
			[]string{"addresses rpc here", "no IP address", `"0.0.0.0"`}},
		"no port for nodes": {base + "ports { rpc = 70000 }\n", nil, []string{"ports rpc", "70000", "4647"}},
		"a token beside it": {"data_dir = \"/x\"\nclient {\n enabled = true\n servers = [\"s\"]\n" +
			" join_token_file = \"token\"\n}\n", nil, []string{"join_token_file token", "must be absolute"}},
		"several servers": {strings.Replace(base, "server { enabled = true }",
			"server {\n enabled = true\n bootstrap_expect = 3\n}", 1), nil, []string{"bootstrap_expect 3",
			"have to reach this one", "addresses"}},
		"all the world": {base, []string{"-bind", "0.0.0.0"},
			[]string{"bind_addr 0.0.0.0", "loopback", "127.0.0.1"}},
		"all the world, for everybody": {base + "acl { enabled = false }\ntls {\n http = true\n" +
			" cert_file = \"/c\"\n key_file = \"/k\"\n}\n", []string{"-bind", "0.0.0.0"},
			[]string{"bind_addr 0.0.0.0", "run anything", "verify_https_client", "cert_file /c: no such file"}},
		"certificates between agents": {base + "tls {\n http = true\n rpc = true\n}\n", nil,
			[]string{`"rpc"`, "certificates that the cluster issues"}},
		"a name to bind":  {base, []string{"-bind", "localhost"}, []string{"bind_addr localhost", "127.0.0.1"}},
		"a port too high": {base, []string{"-http-port", "70000"}, []string{"70000", "65535"}},
		"a strange level": {base, []string{"-log-level", "loud"}, []string{"log_level loud", "trace"}},
		"the pool of all": {strings.Replace(base, "client { enabled = true }",
			"client {\n node_pool = \"all\"\n enabled = true\n}", 1), nil, []string{"node_pool", "without saying so"}},
		"no such driver": {base + "plugin \"podman\" { }\n", nil,
			[]string{`plugin "podman"`, "exec, qemu and raw_exec"}},
		"no such system call": {base + "plugin \"exec\" {\n config { allow_syscalls = [\"sys_ptrace\"] }\n}\n", nil,
			[]string{`plugin "exec"`, "allow_syscalls", `"sys_ptrace"`, "man 2 syscalls"}},
		"another's system calls": {base + "plugin \"raw_exec\" {\n config { allow_syscalls = [\"ptrace\"] }\n}\n", nil,
			[]string{`plugin "raw_exec"`, "allow_syscalls", "exec"}},
		"not below /etc": {base + "plugin \"exec\" {\n config { show_etc = [\"../root\"] }\n}\n", nil,
			[]string{`plugin "exec"`, "show_etc", `"../root"`, "relative to /etc"}},
		"no bound of a device": {base + "plugin \"exec\" {\n config { io_max = [\"/ bps=1\"] }\n}\n", nil,
			[]string{`plugin "exec"`, "io_max", `no bound "bps"`, "riops=NUMBER"}},
		"another's bounds": {base + "plugin \"raw_exec\" {\n config { io_max = [\"/ rbps=1\"] }\n}\n", nil,
			[]string{`plugin "raw_exec"`, "io_max", "exec"}},
		"another's option": {base + "plugin \"raw_exec\" {\n config { allow_caps = [\"net_admin\"] }\n}\n", nil,
			[]string{`plugin "raw_exec"`, "allow_caps", "exec"}},
		"exec is always on": {base + "plugin \"exec\" {\n config { enabled = false }\n}\n", nil,
			[]string{`plugin "exec"`, "enabled"}},
		"a relative volume": {base + "client {\n host_volume \"m\" { path = \"srv\" }\n}\n", nil,
			[]string{"a.hcl:5", "client", "twice"}},
		"a path that is not": {"data_dir = \"/x\"\nserver { enabled = true }\nclient {\n enabled = true\n " +
			"host_volume \"m\" { path = \"srv\" }\n}\n", nil, []string{`host_volume "m"`, "absolute", `"srv"`}},
		"ports that are not": {"data_dir = \"/x\"\nserver { enabled = true }\nclient {\n enabled = true\n reserved { " +
			"reserved_ports = \"22,99999\" }\n}\n", nil, []string{"reserved_ports", `"99999"`, "8000-8010"}},
		"a range backwards": {"data_dir = \"/x\"\nserver { enabled = true }\nclient {\n enabled = true\n " +
			"min_dynamic_port = 40000\n}\n", nil, []string{"40000 to 32000", "20000 to 32000"}},
		"less than nothing": {"data_dir = \"/x\"\nserver { enabled = true }\nclient {\n enabled = true\n " +
			"memory_total_mb = -1\n}\n", nil, []string{"memory_total_mb", "negative"}},
		"less memory than any": {"data_dir = \"/x\"\nserver { enabled = true }\nclient {\n enabled = true\n " +
			"max_memory_max = -1\n}\n", nil, []string{"client max_memory_max", "-1", "10", "no cap"}},
		"no processes": {"data_dir = \"/x\"\nserver { enabled = true }\nclient {\n enabled = true\n " +
			"max_pids = 0\n}\n", nil, []string{"client max_pids", "0 is not between 1 and 4194304", "no cap"}},
		"measured for ever": {"data_dir = \"/x\"\nserver { enabled = true }\nclient {\n enabled = true\n " +
			"volume_stats_interval = \"0s\"\n}\n", nil, []string{"volume_stats_interval", "0s", "5s", "1h"}},
		"measured hardly ever": {"data_dir = \"/x\"\nserver { enabled = true }\nclient {\n enabled = true\n " +
			"volume_stats_interval = \"61m\"\n}\n", nil, []string{"volume_stats_interval", "1h1m", "leave it out"}},
		"certificates for a moment": {"data_dir = \"/x\"\nserver {\n enabled = true\n " +
			"certificate_lifetime = \"1s\"\n}\n", nil,
			[]string{"server certificate_lifetime", "1s is not between 2s and 720h", "24h"}},
		"certificates for ever": {"data_dir = \"/x\"\nserver {\n enabled = true\n " +
			"certificate_lifetime = \"721h\"\n}\n", nil, []string{"server certificate_lifetime", "721h", "720h"}},
		"listed too often": {"data_dir = \"/x\"\nclient { enabled = true }\nserver {\n enabled = true\n " +
			"volume_list_interval = \"10s\"\n}\n", nil, []string{"volume_list_interval", "10s", "1m0s", "10m"}},
		"listed hardly ever": {"data_dir = \"/x\"\nclient { enabled = true }\nserver {\n enabled = true\n " +
			"volume_list_interval = \"25h\"\n}\n", nil, []string{"volume_list_interval", "24h"}},
		"a disk by magic": {"data_dir = \"/x\"\nserver { enabled = true }\nclient {\n enabled = true\n " +
			"ephemeral_disk { enforce = \"magic\" }\n}\n", nil, []string{"ephemeral_disk", `"magic"`, `"sweep"`}},
		"an argument": {base, []string{"extra"}, []string{`unexpected argument "extra"`}},
		"a flag":      {base, []string{"-server"}, []string{"-server"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, t.TempDir(), "a.hcl", c.file)
			_, err := Parse(append([]string{"-config", path}, c.args...), io.Discard)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the message lacks %q:\n%v", w, err)
				}
			}
			if name != "a flag" && !fault.Has(err, fault.Invalid) {
				t.Errorf("kind of %v is not Invalid", err)
			}
		})
	}
}

func TestNoFileNoStart(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{filepath.Join(dir, "missing.hcl"): "missing.hcl",
		dir: "holds no *.hcl or *.json file"} {
		if _, err := Parse([]string{"-config", path}, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("-config %s: %v", path, err)
		}
	}
}

func TestARefusedDevLeavesNoDirectory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	if _, err := Parse([]string{"-dev", "-bind", "0.0.0.0"}, io.Discard); err == nil {
		t.Fatal("accepted")
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

func TestTheDataDirIsWhatTheKernelCallsIt(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	link := filepath.Join(dir, "l")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	cfg := &Config{DataDir: filepath.Join(link, "not", "yet")}
	if err := cfg.resolve(); err != nil || cfg.DataDir != filepath.Join(real, "not", "yet") {
		t.Errorf("behind a link: %q, %v", cfg.DataDir, err)
	}
	if err := os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	cfg = &Config{DataDir: filepath.Join(dir, "dangling", "x")}
	if err := cfg.resolve(); err == nil || !strings.Contains(err.Error(), "leads nowhere") {
		t.Errorf("behind a link to nowhere: %v", err)
	}
}

// Disks are held by quotas only where the kernel can: otherwise the agent says what is missing, and does not start.
func TestQuotasWhereThereAreNone(t *testing.T) {
	path := write(t, t.TempDir(), "a.hcl", "data_dir = \"/proc/x\"\nserver { enabled = true }\n"+
		"client {\n enabled = true\n ephemeral_disk { enforce = \"quota\" }\n}\n")
	_, err := Parse([]string{"-config", path}, io.Discard)
	if !fault.Has(err, fault.Unsupported) {
		t.Fatal(err)
	}
	for _, want := range []string{"ephemeral_disk", "/proc", "prjquota", `"image"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}
