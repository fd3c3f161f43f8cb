package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"berth/internal/model/taskconfig"
)

// elsewhere are options that say nothing of the container itself, with what reads them.
var elsewhere = map[string]string{
	"auth":                      "package images",
	"auth_soft_fail":            "package images",
	"container_exists_attempts": "nothing: the page says so",
	"force_pull":                "package images",
	"image":                     "package images",
	"image_pull_timeout":        "package images",
	"isolation":                 "nothing: the page says so",
	"load":                      "package images",
}

// each has a value of every other option, by the path of its name, with what it is beside, where it needs that.
var each = map[string]string{
	"args":                       `"args": ["x"]`,
	"cap_add":                    `"cap_add": ["net_admin"]`,
	"cap_drop":                   `"cap_drop": ["kill"]`,
	"cgroupns":                   `"cgroupns": "host"`,
	"command":                    `"command": "x"`,
	"cpu_cfs_period":             `"cpu_cfs_period": 5000`,
	"cpu_hard_limit":             `"cpu_hard_limit": true`,
	"devices":                    `"devices": [{"host_path": "/dev/null"}]`,
	"devices.cgroup_permissions": `"devices": [{"host_path": "/dev/null", "cgroup_permissions": "r"}]`,
	"devices.container_path":     `"devices": [{"host_path": "/dev/null", "container_path": "/dev/x"}]`,
	"devices.host_path":          `"devices": [{"host_path": "/dev/zero"}]`,
	"dns_options":                `"dns_options": ["x"]`,
	"dns_search_domains":         `"dns_search_domains": ["x"]`,
	"dns_servers":                `"dns_servers": ["x"]`,
	"entrypoint":                 `"entrypoint": ["x"]`,
	"extra_hosts":                `"extra_hosts": ["x:127.0.0.1"]`,
	"group_add":                  `"group_add": ["x"]`,
	"healthchecks":               `"healthchecks": [{"disable": true}]`,
	"healthchecks.disable":       `"healthchecks": [{"disable": true}]`,
	"hostname":                   `"hostname": "x"`,
	"init":                       `"init": true`,
	"interactive":                `"interactive": true`,
	"ipc_mode":                   `"ipc_mode": "host"`,
	"ipv4_address":               `"ipv4_address": "10.0.0.1"`,
	"ipv6_address":               `"ipv6_address": "fd00::1"`,
	"labels":                     `"labels": {"x": "y"}`,
	"logging":                    `"logging": [{"type": "journald"}]`,
	"logging.config":             `"logging": [{"config": {"tag": "x"}}]`,
	"logging.driver":             `"logging": [{"driver": "local"}]`,
	"logging.type":               `"logging": [{"type": "local"}]`,
	"mac_address":                `"mac_address": "02:00:00:00:00:01"`,
	"memory_hard_limit":          `"memory_hard_limit": 100`,
	"mount":                      `"mount": [{"type": "tmpfs", "target": "/x"}]`,
	"mount.bind_options": `"mount": [{"type": "bind", "source": "local", "target": "/x",
		"bind_options": [{"propagation": "slave"}]}]`,
	"mount.bind_options.propagation": `"mount": [{"type": "bind", "source": "local", "target": "/x",
		"bind_options": [{"propagation": "slave"}]}]`,
	"mount.readonly": `"mount": [{"type": "bind", "source": "local", "target": "/x", "readonly": true}]`,
	"mount.source":   `"mount": [{"type": "bind", "source": "local", "target": "/x"}]`,
	"mount.target":   `"mount": [{"type": "tmpfs", "target": "/y"}]`,
	"mount.tmpfs_options": `"mount": [{"type": "tmpfs", "target": "/x",
		"tmpfs_options": [{"size": 5}]}]`,
	"mount.tmpfs_options.mode": `"mount": [{"type": "tmpfs", "target": "/x",
		"tmpfs_options": [{"mode": 5}]}]`,
	"mount.tmpfs_options.size": `"mount": [{"type": "tmpfs", "target": "/x",
		"tmpfs_options": [{"size": 5}]}]`,
	"mount.type": `"mount": [{"type": "volume", "target": "/x"}]`,
	"mount.volume_options": `"mount": [{"target": "/x",
		"volume_options": [{"no_copy": true}]}]`,
	"mount.volume_options.driver_config": `"mount": [{"target": "/x",
		"volume_options": [{"driver_config": [{"name": "x"}]}]}]`,
	"mount.volume_options.driver_config.name": `"mount": [{"target": "/x",
		"volume_options": [{"driver_config": [{"name": "x"}]}]}]`,
	"mount.volume_options.driver_config.options": `"mount": [{"target": "/x",
		"volume_options": [{"driver_config": [{"options": {"a": "b"}}]}]}]`,
	"mount.volume_options.labels": `"mount": [{"target": "/x",
		"volume_options": [{"labels": {"a": "b"}}]}]`,
	"mount.volume_options.no_copy": `"mount": [{"target": "/x",
		"volume_options": [{"no_copy": true}]}]`,
	"network_aliases": `"network_aliases": ["x"]`,
	"network_mode":    `"network_mode": "host"`,
	"oom_score_adj":   `"oom_score_adj": 5`,
	"pid_mode":        `"pid_mode": "host"`,
	"pids_limit":      `"pids_limit": 5`,
	"ports":           `"ports": ["http"]`,
	"privileged":      `"privileged": true`,
	"readonly_rootfs": `"readonly_rootfs": true`,
	"runtime":         `"runtime": "runc"`,
	"security_opt":    `"security_opt": ["no-new-privileges"]`,
	"shm_size":        `"shm_size": 5000`,
	"storage_opt":     `"storage_opt": {"size": "1G"}`,
	"sysctl":          `"sysctl": {"net.core.somaxconn": "5"}`,
	"tty":             `"tty": true`,
	"ulimit":          `"ulimit": {"nofile": "5"}`,
	"userns_mode":     `"userns_mode": "host"`,
	"uts_mode":        `"uts_mode": "host"`,
	"volume_driver":   `"volume_driver": "x"`,
	"volumes":         `"volumes": ["local:/x"]`,
	"work_dir":        `"work_dir": "/x"`,
}

// TestNoOptionOfAContainerIsIgnored: given every option that a block can hold, within its blocks too, then what the
// daemon is asked for is another thing with it than without, or another package reads it.
func TestNoOptionOfAContainerIsIgnored(t *testing.T) {
	p := Policy{AllowPrivileged: true, AllowVolumes: true, AllowCaps: []string{"all"}}
	p.MHz = func() int64 { return 1000 }
	plain, err := asked(t, p, ``)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	var walk func(prefix string, s taskconfig.Schema)
	walk = func(prefix string, s taskconfig.Schema) {
		for _, name := range slices.Sorted(maps.Keys(s)) {
			if prefix == "" && (elsewhere[name] != "" || name == "mounts") { // which are mount, by another name
				continue
			}
			paths = append(paths, prefix+name)
			walk(prefix+name+".", s[name].Fields)
		}
	}
	walk("", Schema)
	for _, path := range paths {
		block, there := each[path]
		if !there {
			t.Errorf("%s: nothing says what becomes of it", path)
			continue
		}
		got, err := asked(t, p, block)
		if err != nil || got == plain {
			t.Errorf("%s: it changes nothing: %v", path, err)
		}
		var v map[string]any
		if err := json.Unmarshal([]byte("{"+block+"}"), &v); err != nil || !holds(v, path) {
			t.Errorf("%s: %s does not have it: %v", path, block, err)
		}
	}
	if len(each) != len(paths) {
		t.Errorf("there are %d options and %d lines", len(paths), len(each))
	}
}

// holds reports whether a block has an option.
func holds(v map[string]any, path string) bool {
	for i := range path {
		if path[i] != '.' {
			continue
		}
		list, _ := v[path[:i]].([]any)
		for _, one := range list {
			if m, ok := one.(map[string]any); ok && holds(m, path[i+1:]) {
				return true
			}
		}
		return false
	}
	return fmt.Sprint(v[path]) != "<nil>"
}
