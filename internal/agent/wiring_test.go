package agent

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/agent/plugins"
	"berth/internal/base/redact"
	"berth/internal/client"
	"berth/internal/client/allocdir"
	"berth/internal/httpapi"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/audit"
	"berth/internal/port/credentials"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/rawexec"
	"berth/internal/server"
	"berth/internal/testkit/certificates"
	"berth/jobspec/hclfile"
)

var update = flag.Bool("update", false, "rewrite testdata/settings.txt")

// wired is what an agent makes of its configuration, as it hands it to its parts.
type wired struct {
	Server server.Config
	Node   client.Config
	HTTP   httpapi.Config
	Port   string // empty: there is none
	RPC    string // empty: there is none
	Own    *credentials.Config
	Guard  access.Network
	// Shows is the certificate of the port, Clients what it asks of clients, Least the least version.
	Shows, Clients, Least string
	Audit                 audit.Config
	Socket                string
	Level                 string
	Format                string
}

func wiring(t *testing.T, cfg *Config) wired {
	t.Helper()
	a := &Agent{cfg: cfg, log: slog.New(slog.DiscardHandler), version: "1"}
	a.server = server.New(a.serverConfig())
	node, err := a.nodeConfig()
	if err != nil {
		t.Fatal(err)
	}
	surface, err := a.surfaceConfig()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	log, least := cfg.logTo(null)
	out := wired{
		Server: a.serverConfig(),
		Node:   node,
		HTTP:   surface,
		Guard:  cfg.guard(),
		Audit:  cfg.auditTo(),
		Socket: cfg.API.Socket,
		RPC:    cfg.rpc(),
		Own:    cfg.own(slog.New(slog.DiscardHandler)),
		Level:  least.Level().String(),
		Format: fmt.Sprintf("%T", log),
	}
	if cfg.servesPort() {
		out.Port = cfg.port()
	}
	if cfg.certs != nil {
		c := cfg.certs.Config()
		out.Shows, out.Clients = c.Certificates[0].Leaf.Subject.CommonName, c.ClientAuth.String()
		out.Least = tls.VersionName(c.MinVersion)
	}
	return out
}

// values are the values of something and of all that it consists of, by their paths. Parts that do something, and hold
// no settings, are left out.
func values(out map[string]string, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Func, reflect.Chan, reflect.Interface:
	case reflect.Pointer:
		if !v.IsNil() {
			values(out, path, v.Elem())
		}
	case reflect.Struct:
		if secret, is := v.Interface().(redact.Secret); is {
			out[path] = secret.Reveal()
			return
		}
		if subnet, is := v.Interface().(interface{ Bits() int }); is { // of its own package's making
			out[path] = fmt.Sprint(subnet)
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				values(out, strings.TrimPrefix(path+"."+f.Name, "."), v.Field(i))
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			values(out, fmt.Sprintf("%s[%v]", path, k), v.MapIndex(k))
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k == reflect.Struct || k == reflect.Pointer {
			for i := range v.Len() {
				values(out, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
			return
		}
		out[path] = fmt.Sprint(v.Interface())
	default:
		out[path] = fmt.Sprint(v.Interface())
	}
}

func (w wired) values() map[string]string {
	out := map[string]string{}
	values(out, "", reflect.ValueOf(w))
	return out
}

// differences are where two agents differ, a line each.
func differences(before, after wired) []string {
	old, now := before.values(), after.values()
	all := maps.Clone(old)
	maps.Copy(all, now)
	var out []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if old[path] != now[path] {
			out = append(out, fmt.Sprintf("%s: %q, was %q", path, now[path], old[path]))
		}
	}
	return out
}

// named is a base of which nothing depends on the machine.
const named = base + `
name = "here"
acl { enabled = false }
limits { http_max_conns = 100 }
`

// Given an agent, when one setting or flag is changed, then what it hands to its parts differs in what the setting is
// for, and in nothing else. The file says where each arrives, and has them all.
func TestEverySettingArrives(t *testing.T) {
	const path = "testdata/settings.txt"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, token := write(t, dir, "base.hcl", named), write(t, dir, "token", strings.Repeat("s3cret", 8)+"\n")
	office := certificates.NewOffice(t, dir, "clients")
	crt := office.Issue(t, "api", time.Hour, "api.example")
	before := wiring(t, parse(t, "-config", file))
	seen := map[string]bool{}
	var out strings.Builder
	for i, block := range strings.Split(strings.TrimRight(string(raw), "\n"), "\n\n") {
		given, want, _ := strings.Cut(block, "\n----\n")
		args, text := []string{"-config", file}, ""
		for line := range strings.Lines(given) {
			if strings.HasPrefix(line, "-") {
				args = append(args, strings.Fields(line)...)
			} else {
				text += strings.NewReplacer("$TOKEN", token, "$CERT", crt.Cert, "$KEY", crt.Key, "$CA", office.CA).
					Replace(line)
			}
		}
		args = append(args, "-config", write(t, dir, fmt.Sprintf("%d.hcl", i), text))
		arrived := strings.Join(differences(before, wiring(t, parse(t, args...))), "\n")
		arrived = strings.NewReplacer(crt.Cert, "$CERT", crt.Key, "$KEY", office.CA, "$CA").Replace(arrived)
		if !*update && arrived != want {
			t.Errorf("%s\n\narrives as\n%s\n\nwant\n%s", given, arrived, want)
		}
		if arrived == "" {
			t.Errorf("%s\n\narrives nowhere", given)
		}
		fmt.Fprintf(&out, "%s\n----\n%s\n\n", given, arrived)
		maps.Copy(seen, settings(t, text))
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(everySetting())) {
		if reason, is := oneValue[s]; seen[s] == is {
			t.Errorf("setting %s: in %s: %t; has one value: %t %s", s, path, seen[s], is, reason)
		}
	}
}

// oneValue are settings that can have one value, and why.
var oneValue = map[string]string{
	"consul.name":                            "there is one cluster of Consul",
	"consul.namespace":                       "there is one cluster of Consul, without namespaces",
	"consul.auto_advertise":                  "agents are not registered in Consul",
	"consul.checks_use_advertise":            "agents are not registered in Consul",
	"consul.client_auto_join":                "agents do not find each other by Consul",
	"consul.server_auto_join":                "agents do not find each other by Consul",
	"consul.share_ssl":                       "tasks are given no certificates of the agent's",
	"consul.service_identity.env":            "a service has no environment",
	"consul.service_identity.file":           "a service has no directory",
	"consul.grpc_ca_file":                    "what is in the file arrives: TestSidecarsAreReachedByTLS",
	"server.bootstrap_expect":                "what it asks for is not built",
	"server.enabled":                         "it is said in the base",
	"leave_on_interrupt":                     "it is asked when the agent ends: TestAgentsLeave",
	"leave_on_terminate":                     "it is asked when the agent ends: TestAgentsLeave",
	"client.enabled":                         "a server has a node",
	"client.servers":                         "an agent with a server has no others: see below",
	"client.join_token_file":                 "an agent with a server does not join: see below",
	"plugin.exec.config.enabled":             "it is on",
	"plugin.raw_exec.config.allow_csi_node":  "its tasks are not confined",
	"plugin.raw_exec.config.allow_caps":      "its tasks are not confined",
	"plugin.raw_exec.config.allow_syscalls":  "its tasks are not confined",
	"plugin.raw_exec.config.user_namespaces": "its tasks are not confined",
	"plugin.raw_exec.config.show_etc":        "its tasks are not confined",
	"plugin.raw_exec.config.io_max":          "its tasks are not confined",
	"plugin.raw_exec.config.allow_host_pid":  "its tasks are not confined",
	"plugin.raw_exec.config.allow_host_ipc":  "its tasks are not confined",
}

// settings are those that a text sets.
func settings(t *testing.T, text string) map[string]bool {
	t.Helper()
	var c Config
	report := hclfile.NewReport()
	hclfile.DecodeInto(report, "a.hcl", []byte(text), &c, refusals)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	set(out, "", reflect.ValueOf(c), false)
	return out
}

// everySetting are all that there are.
func everySetting() map[string]bool {
	out := map[string]bool{}
	set(out, "", reflect.ValueOf(Config{Plugins: []*plugins.Plugin{{Name: exec.Name}, {Name: rawexec.Name}}}), true)
	return out
}

// set finds the settings in v that have a value, or all.
func set(out map[string]bool, path string, v reflect.Value, all bool) {
	for i := range v.NumField() {
		name, kind, _ := strings.Cut(v.Type().Field(i).Tag.Get("hcl"), ",")
		if v.Type().Field(i).Anonymous {
			set(out, path, v.Field(i), all)
			continue
		}
		if name == "" || kind == "label" {
			continue
		}
		f, at := v.Field(i), strings.TrimPrefix(path+"."+name, ".")
		switch {
		case kind == "block" && f.Kind() == reflect.Slice:
			if f.Len() == 0 && all {
				f = reflect.Append(reflect.New(f.Type()).Elem(), reflect.New(f.Type().Elem().Elem()))
			}
			for j := range f.Len() {
				one := at
				if p, is := f.Index(j).Interface().(*plugins.Plugin); is {
					one += "." + p.Name
				}
				set(out, one, f.Index(j).Elem(), all)
			}
		case kind == "block":
			if f.IsNil() && all {
				f = reflect.New(f.Type().Elem())
			}
			if !f.IsNil() {
				set(out, at, f.Elem(), all)
			}
		case all || !f.IsZero():
			out[at] = true
		}
	}
}

// Given each way to hold tasks to their disks, then the node holds them so; and tasks cannot take files out of a quota.
// It is set past the check of what this kernel can do.
func TestEachWayToHoldDisksArrives(t *testing.T) {
	for way, want := range map[string]struct {
		disks     allocdir.Held
		unlimited bool
		keep      bool
	}{
		enforceSweep: {},
		enforceNone:  {unlimited: true},
		enforceImage: {disks: allocdir.Image},
		enforceQuota: {disks: allocdir.Quota, keep: true},
	} {
		cfg := parse(t, "-config", write(t, t.TempDir(), "a.hcl", named))
		cfg.Client.EphemeralDisk = &EphemeralDisk{Enforce: way}
		got := wiring(t, cfg).Node
		if got.Disks != want.disks || got.UnlimitedDisks != want.unlimited || got.Exec.KeepProjects != want.keep {
			t.Errorf("%s: %v, unlimited %t, files stay in their projects %t", way, got.Disks, got.UnlimitedDisks,
				got.Exec.KeepProjects)
		}
	}
}

// TestAnAgentWithoutAServerHasItsWays: to the servers that it names, with their ports.
func TestAnAgentWithoutAServerHasItsWays(t *testing.T) {
	dir := t.TempDir()
	cfg := parse(t, "-config", write(t, dir, "n.hcl", `
data_dir = "/var/lib/n"
client {
  enabled         = true
  servers         = ["10.0.0.1", "s2.example:14647", "fd00::1", "[fd00::2]:4647"]
  join_token_file = "/etc/berth/join-token"
}
`))
	a := &Agent{cfg: cfg, log: slog.New(slog.DiscardHandler)}
	got := a.joins()
	want := []string{"10.0.0.1:4647", "s2.example:14647", "[fd00::1]:4647", "[fd00::2]:4647"}
	if !slices.Equal(got.Servers, want) || got.TokenFile != "/etc/berth/join-token" || got.Dir != "/var/lib/n/client" {
		t.Errorf("%+v", got)
	}
	if cfg.API.Socket != api.DefaultSocket || !cfg.servesPort() || cfg.rpc() != "" {
		t.Errorf("it listens: %q, %t, %q", cfg.API.Socket, cfg.servesPort(), cfg.rpc())
	}
	if !cfg.socketGuard().Lists || !cfg.guard().Lists || !cfg.guard().Token.Empty() {
		t.Errorf("somebody of the machine is believed: %+v, %+v", cfg.socketGuard(), cfg.guard())
	}
}
