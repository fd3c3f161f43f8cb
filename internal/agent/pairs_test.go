package agent

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/testkit/race"
)

// lines are what is written in a configuration by where they stand: the blocks around each, with / between.
type lines map[string]string

// hcl writes them as a file.
func (s lines) hcl() string {
	var b strings.Builder
	inner := map[string]lines{}
	for _, at := range slices.Sorted(maps.Keys(s)) {
		block, rest, nested := strings.Cut(at, "/")
		if !nested {
			b.WriteString(at + " = " + s[at] + "\n")
			continue
		}
		if inner[block] == nil {
			inner[block] = lines{}
		}
		inner[block][rest] = s[at]
	}
	for _, block := range slices.Sorted(maps.Keys(inner)) {
		b.WriteString(block + " {\n" + inner[block].hcl() + "}\n")
	}
	return b.String()
}

// wrong is a value, or several, that cannot be, and what is said of it.
type wrong struct {
	says string
	set  lines
}

// ofServers are wrong for an agent with a server, ofNodes for one without.
var (
	ofServers = append(slices.Clone(ofAll), []wrong{
		{"has a server in the agent itself", lines{"client/servers": `["10.0.0.1"]`}},
		{"configure server bootstrap_expect: 77 is no number", lines{"server/bootstrap_expect": "77"}},
		{"other servers have to reach this one", lines{"server/bootstrap_expect": "3"}},
		{"the servers that it joins have to reach", lines{"server/server_join/retry_join": `["s"]`}},
		{`retry_join "a:b:c"`, lines{"server/server_join/retry_join": `["a:b:c"]`}},
		{"server join_token_file token: its path", lines{"server/join_token_file": `"token"`}},
		{"the server joins nobody", lines{"server/join_token_file": `"/token"`}},
		{"advertise rpc: nothing listens there", lines{"advertise/rpc": `"10.0.0.1"`}},
		{`advertise rpc "a:b:c"`, lines{"advertise/rpc": `"a:b:c"`}},
		{"addresses rpc here: it is no IP", lines{"addresses/rpc": `"here"`}},
		{`name "a b.global"`, lines{"name": `"a b"`, "addresses/rpc": `"10.0.0.1"`}},
		{"server job_gc_interval", lines{"server/job_gc_interval": `"1ms"`}},
		{"server certificate_lifetime", lines{"server/certificate_lifetime": `"1s"`}},
		{"server volume_list_interval", lines{"server/volume_list_interval": `"1s"`}},
		{"retry_interval", lines{"server/server_join/retry_interval": `"1ms"`}},
	}...)
	ofNodes = append(slices.Clone(ofAll), []wrong{
		{"this agent has no server, and names none", lines{"client/servers": "[]"}},
		{`client servers "a:b:c"`, lines{"client/servers": `["a:b:c"]`}},
		{`client servers "d:e:f"`, lines{"client/servers": `["s", "d:e:f"]`}},
		{"client join_token_file token", lines{"client/join_token_file": `"token"`}},
		{"do not take a node's word", lines{"api/unsafe_open": "true"}},
		{"client local_csi", lines{"client/local_csi": "true"}},
		{"listens for no nodes", lines{"addresses/rpc": `"10.0.0.1"`}},
		{"server_join, join_token_file, bootstrap_expect", lines{"server/bootstrap_expect": "3"}},
	}...)
	ofAll = []wrong{
		{"data_dir /: it is the root", lines{"data_dir": `"/"`}},
		{"a symbolic link that leads nowhere", lines{"data_dir": `"DIR/dangling/x"`}},
		{"bind_addr here", lines{"bind_addr": `"here"`}},
		{"without encryption the API may listen", lines{"bind_addr": `"0.0.0.0"`}},
		{"log_level loud", lines{"log_level": `"loud"`}},
		{"ports http", lines{"ports/http": "70000"}},
		{"ports rpc", lines{"ports/rpc": "70000"}},
		{"client node_pool", lines{"client/node_pool": `"all"`}},
		{"40000 to 32000", lines{"client/min_dynamic_port": "40000"}},
		{"cpu_total_compute", lines{"client/memory_total_mb": "-1"}},
		{"client max_pids", lines{"client/max_pids": "0"}},
		{"client max_memory_max", lines{"client/max_memory_max": "1"}},
		{"client reserved: cpu", lines{"client/reserved/cpu": "-1"}},
		{`"99999" is no port`, lines{"client/reserved/reserved_ports": `"99999"`}},
		{`host_volume "m"`, lines{`client/host_volume "m"/path`: `"srv"`}},
		{"volume_stats_interval", lines{"client/volume_stats_interval": `"0s"`}},
		{"max_kill_timeout", lines{"client/max_kill_timeout": `"0s"`}},
		{"crash_window", lines{"client/crash_window": `"2h"`}},
		{`"magic" is no way`, lines{"client/ephemeral_disk/enforce": `"magic"`}},
		{"limits http_max_conns:", lines{"limits/http_max_conns": "-1"}},
		{"limits http_max_conns_per_client:", lines{"limits/http_max_conns_per_client": "-1"}},
		{"api socket sock: its path", lines{"api/socket": `"sock"`}},
		{"and the kernel takes", lines{"api/socket": `"/` + strings.Repeat("s", 200) + `"`}},
		{"api allowed_hosts", lines{"api/allowed_hosts": `["a/b"]`}},
		{"api token_file token: its path", lines{"api/token_file": `"token"`}},
		{"api token_file /nothing/there", lines{"api/token_file": `"/nothing/there"`}},
		{"keyring recovery", lines{"keyring/recovery": `["x"]`}},
		{"tls cert_file c: its path", lines{"tls/http": "true", "tls/cert_file": `"c"`, "tls/key_file": `"/k"`}},
		{"tls tls_min_version", lines{"tls/tls_min_version": `"ssl3"`}},
		{"token_min_expiration_ttl", lines{"acl/token_min_expiration_ttl": `"-1s"`}},
		{"audit path audit.log", lines{"audit/path": `"audit.log"`}},
		{"audit rotate_bytes", lines{"audit/rotate_bytes": "1"}},
		{"audit rotate_max_files", lines{"audit/rotate_max_files": "-1"}},
		{"exec has no option enabled", lines{`plugin "exec"/config/enabled`: "false"}},
		{"denied_host_gids", lines{`plugin "exec"/config/denied_host_gids`: `"x"`}},
		{"denied_host_uids", lines{`plugin "exec"/config/denied_host_uids`: `"x"`}},
		{`plugin "exec" default_user`, lines{`plugin "exec"/config/default_user`: `""`}},
		{"user_namespaces", lines{`plugin "exec"/config/user_namespaces`: `"x"`}},
		{"show_etc", lines{`plugin "exec"/config/show_etc`: `["../root"]`}},
		{"io_max", lines{`plugin "exec"/config/io_max`: `["/ rbps=1M"]`}},
		{"allow_syscalls", lines{`plugin "exec"/config/allow_syscalls`: `["sys_ptrace"]`}},
		{"its tasks are not confined", lines{`plugin "raw_exec"/config/allow_caps`: `["net_admin"]`}},
		{`plugin "raw_exec" denied_host_uids`, lines{`plugin "raw_exec"/config/denied_host_uids`: `"x"`}},
		{"there is no such task driver", lines{`plugin "podman"/config/enabled`: "true"}},
	}
)

// meaningless are pairs, by what is said of each, of which one leaves the other without a meaning, and why.
var meaningless = map[[2]string]string{
	{"without encryption the API may listen", "tls cert_file c: its path"}:         "it is encrypted",
	{"other servers have to reach this one", "addresses rpc here: it is no IP"}:    "it says where they reach it",
	{"other servers have to reach this one", `name "a b.global"`}:                  "it says where they reach it",
	{"the servers that it joins have to reach", "addresses rpc here: it is no IP"}: "it says where they reach it",
	{"the servers that it joins have to reach", `name "a b.global"`}:               "it says where they reach it",
	{"the servers that it joins have to reach", "the server joins nobody"}:         "it joins somebody",
	{`retry_join "a:b:c"`, "the server joins nobody"}:                              "it joins somebody",
	{"advertise rpc: nothing listens there", "addresses rpc here: it is no IP"}:    "something listens there",
	{"advertise rpc: nothing listens there", `name "a b.global"`}:                  "something listens there",
}

// TestTwoWrongValuesComeInOneAnswer: given the configuration of an agent with a server, and of one without, and each
// pair of the values that cannot be, when it is read, then one answer names both.
func TestTwoWrongValuesComeInOneAnswer(t *testing.T) {
	const on, data = "true", `"/var/lib/berth-of-a-test"`
	dir, pairs := t.TempDir(), 0
	if err := os.Symlink("nothing", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		base lines
		all  []wrong
	}{
		{lines{"data_dir": data, "server/enabled": on, "client/enabled": on}, ofServers},
		{lines{"data_dir": data, "client/enabled": on, "client/servers": `["s"]`}, ofNodes},
	} {
		said := func(all ...wrong) string {
			s := maps.Clone(c.base)
			for _, w := range all {
				maps.Copy(s, w.set)
			}
			file := write(t, dir, "a.hcl", strings.ReplaceAll(s.hcl(), "DIR", dir))
			_, err := Parse([]string{"-config", file}, io.Discard)
			if err == nil {
				return ""
			}
			return err.Error()
		}
		if text := said(); text != "" {
			t.Fatalf("the configuration without a mistake is refused: %s", text)
		}
		for i, a := range c.all {
			if text := said(a); !strings.Contains(text, a.says) {
				t.Errorf("%v: %q is not said of it alone: %s", a.set, a.says, text)
			}
			for _, b := range c.all[i+1:] {
				same := func(at string) bool { return b.set[at] != "" }
				if slices.ContainsFunc(slices.Collect(maps.Keys(a.set)), same) {
					continue // there is but one value
				}
				if pairs++; pairs%race.Stride() > 0 {
					continue
				}
				text := said(a, b)
				both := strings.Contains(text, a.says) && strings.Contains(text, b.says)
				why := meaningless[[2]string{a.says, b.says}]
				if why == "" && !both || why != "" && both {
					t.Errorf("%v and %v: come together: %v, excused: %q\n%s", a.set, b.set, both, why, text)
				}
			}
		}
	}
}
