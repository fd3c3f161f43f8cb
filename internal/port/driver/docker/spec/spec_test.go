package spec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
)

// asked is what a task of a job asks the daemon for, in the form in which it is sent.
func asked(t *testing.T, cfg Policy, block string, change ...func(*driver.TaskConfig)) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"alloc/logs", "web/local", "web/secrets", "db/secrets"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "web/local/out")); err != nil {
		t.Fatal(err)
	}
	task := &driver.TaskConfig{
		Alloc:     "5f3c1a52-0000-4000-8000-000000000001",
		Task:      "web",
		Attempt:   1,
		Env:       map[string]string{"A": "b"},
		Config:    map[string]any{"image": "redis:7"},
		Resources: driver.Resources{CPUShares: 500, MemoryMB: 64},
		Logs:      driver.LogConfig{Dir: filepath.Join(dir, "alloc/logs")},
		AllocDir:  filepath.Join(dir, "alloc"),
		TaskDir:   filepath.Join(dir, "web"),
		Ports:     []driver.Port{{Label: "http", Value: 20000, To: 80, HostIP: "127.0.0.1"}},
	}
	var more map[string]any
	if err := json.Unmarshal([]byte("{"+block+"}"), &more); err != nil {
		t.Fatal(err)
	}
	for k, v := range more {
		task.Config[k] = v
	}
	for _, c := range change {
		c(task)
	}
	cfg = cfg.WithDefaults()
	config, err := Schema.Read(Name, task.Config)
	if err != nil {
		return "", err
	}
	body, err := cfg.Create(task, Options(config))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), dir, "DIR"), nil
}

// Given what jobs write, then the daemon is asked for that, in its own words.
func TestTheDaemonIsAskedForWhatTheJobSays(t *testing.T) {
	all := Policy{AllowPrivileged: true, AllowVolumes: true, AllowCaps: []string{"all"}}
	all.MHz = func() int64 { return 2000 }
	for _, c := range []struct{ block, want string }{
		{``, `"Memory":67108864,`},
		{``, `"MemorySwap":67108864,`},
		{``, `"PidsLimit":4096`},
		{``, `"NetworkMode":"default"`},
		{``, `{"Type":"bind","Source":"DIR/web/local","Target":"/local"}`},
		{``, `{"Type":"bind","Source":"DIR/alloc/logs","Target":"/alloc/logs","ReadOnly":true}`},
		{``, `"berth.attempt":"1"`},
		{`"command": "redis-server", "args": ["--port", 80]`, `"Cmd":["redis-server","--port","80"]`},
		{`"args": ["--port"]`, `"Cmd":["--port"]`},
		{`"entrypoint": ["/x"], "args": ["y"]`, `"Cmd":["y"],"Entrypoint":["/x"]`},
		{`"ports": ["http"]`, `"80/tcp":[{"HostIp":"127.0.0.1","HostPort":"20000"}]`},
		{`"network_mode": "host"`, `"NetworkMode":"host"`},
		{`"init": true`, `"Init":true`},
		{`"cpu_hard_limit": true`, `"CpuPeriod":100000,"CpuQuota":25000`},
		{`"memory_hard_limit": 128`, `"Memory":134217728,"MemoryReservation":67108864`},
		{`"ulimit": {"nofile": "1024:2048"}`,
			`"Ulimits":[{"Name":"core","Soft":0,"Hard":0},{"Name":"nofile","Soft":1024,"Hard":2048}]`},
		{`"sysctl": {"net.core.somaxconn": "512"}`, `"Sysctls":{"net.core.somaxconn":"512"}`},
		{`"volumes": ["local/x:/data:ro"]`,
			`{"Type":"bind","Source":"DIR/web/local/x","Target":"/data","ReadOnly":true}`},
		{`"volumes": ["/etc:/data"]`, `{"Type":"bind","Source":"/etc","Target":"/data"}`},
		{`"volumes": ["name:/data"]`, `{"Type":"volume","Source":"name","Target":"/data","VolumeOptions":{}}`},
		{`"volumes": ["local:/local:ro"]`,
			`{"Type":"bind","Source":"DIR/web/local","Target":"/local","ReadOnly":true}`},
		{`"volumes": ["../alloc:/x"]`, `{"Type":"bind","Source":"DIR/alloc/logs","Target":"/x/logs","ReadOnly":true}`},
		{`"volumes": ["../alloc/logs:/x"]`, `{"Type":"bind","Source":"DIR/alloc/logs","Target":"/x","ReadOnly":true}`},
		{`"mount": [{"type": "tmpfs", "target": "/t", "tmpfs_options": [{"size": 1000}]}]`,
			`{"Type":"tmpfs","Target":"/t","TmpfsOptions":{"SizeBytes":1000}}`},
		{`"privileged": true`, `"Privileged":true`},
		{`"cap_add": ["CAP_NET_ADMIN"], "cap_drop": ["mknod"]`, `"CapAdd":["NET_ADMIN"],"CapDrop":["MKNOD"]`},
		{`"devices": [{"host_path": "/dev/null"}]`,
			`"Devices":[{"PathOnHost":"/dev/null","PathInContainer":"/dev/null","CgroupPermissions":"rwm"}]`},
		{`"labels": {"a": "b", "berth.attempt": "7"}`, `"a":"b"`},
		{`"labels": {"berth.attempt": "7"}`, `"berth.attempt":"1"`},
		{`"logging": [{"type": "json-file"}]`,
			`"LogConfig":{"Type":"json-file","Config":{"max-file":"2","max-size":"10m"}}`},
		{`"logging": [{"config": {"max-size": "20m"}}]`,
			`"LogConfig":{"Type":"json-file","Config":{"max-file":"2","max-size":"20m"}}`},
		{`"logging": [{"type": "journald"}]`, `"LogConfig":{"Type":"journald"}`},
		{`"healthchecks": [{"disable": true}]`, `"Healthcheck":{"Test":["NONE"]}`},
	} {
		got, err := asked(t, all, c.block)
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v\n%s\nlacks %s", c.block, err, got, c.want)
		}
	}
}

// Given labels of a job that tools and Berth look for, when its container is made, then they say whose it is: what the
// job writes of them is not there, in the place of one that is always set or beside those.
func TestAJobDoesNotSayWhoseItsContainerIs(t *testing.T) {
	got, err := asked(t, Policy{}, `"labels": {"berth.attempt": "7", "berth.task": "other", "berth.more": "mine",
		"com.hashicorp.nomad.alloc_id": "other", "com.hashicorp.nomad.job_id": "mine", "berths": "kept"}`)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`"berth.attempt":"1"`:        true,
		`"berth.task":"web"`:         true,
		`"berths":"kept"`:            true,
		`"berth.more"`:               false,
		`com.hashicorp.nomad.job_id`: false,
		`"other"`:                    false,
		`"mine"`:                     false,
	} {
		if strings.Contains(got, text) != want {
			t.Errorf("its labels have %s: %v\n%s", text, !want, got)
		}
	}
}

// Given an agent that allows nothing beyond a container, when a job asks for what reaches the node, then that is
// refused by the option's name, with the setting that would allow it; and an agent that has it takes the job.
func TestWhatReachesBeyondAContainerIsRefused(t *testing.T) {
	for _, c := range []struct {
		block, names, way string
		allow             Policy
	}{
		{`"privileged": true`, "config.privileged", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"pid_mode": "host"`, "config.pid_mode", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"ipc_mode": "host"`, "config.ipc_mode", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"uts_mode": "host"`, "config.uts_mode", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"userns_mode": "host"`, "config.userns_mode", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"pid_mode": "container:x"`, "config.pid_mode", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"network_mode": "container:x"`, "config.network_mode", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"security_opt": ["seccomp=unconfined"]`, "config.security_opt", "allow_privileged",
			Policy{AllowPrivileged: true}},
		{`"devices": [{"host_path": "/dev/sda"}]`, "config.devices", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"cap_add": ["sys_admin"]`, "config.cap_add", "allow_caps", Policy{AllowCaps: []string{"SYS_ADMIN"}}},
		{`"runtime": "other"`, "config.runtime", "allow_runtimes", Policy{AllowRuntimes: []string{"other"}}},
		{`"volumes": ["/etc:/x"]`, "config.volumes", "volumes { enabled", Policy{AllowVolumes: true}},
		{`"volumes": ["local/out:/x"]`, "config.volumes", "volumes { enabled", Policy{AllowVolumes: true}},
		{`"volumes": [".:/x"]`, "config.volumes", "volumes { enabled", Policy{AllowVolumes: true}},
		{`"volumes": ["local/..:/x"]`, "config.volumes", "volumes { enabled", Policy{AllowVolumes: true}},
		{`"volumes": ["../db/secrets:/x"]`, "config.volumes", "volumes { enabled", Policy{AllowVolumes: true}},
		{`"mount": [{"type": "bind", "source": "/", "target": "/x"}]`, "config.mount", "volumes { enabled",
			Policy{AllowVolumes: true}},
		{`"mount": [{"type": "volume", "source": "v", "target": "/x", "volume_options": [{"driver_config":
			[{"name": "local", "options": {"o": "bind", "device": "/"}}]}]}]`, "config.mount", "volumes { enabled",
			Policy{AllowVolumes: true}},
		{`"volumes": ["local:/x:shared"]`, "config.mount.bind_options", "allow_privileged",
			Policy{AllowPrivileged: true}},
		{`"ulimit": {"rtprio": "99"}`, "config.ulimit.rtprio", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"ulimit": {"nice": "40"}`, "config.ulimit.nice", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"logging": [{"type": "fluentd", "config": {"fluentd-address": "unix:///run/x"}}]`, "config.logging",
			"allow_privileged", Policy{AllowPrivileged: true}},
		{`"mounts": [{"type": "bind", "source": "local", "target": "/x", "bind_options": [{"propagation":
			"rshared"}]}]`, "config.mount.bind_options", "allow_privileged", Policy{AllowPrivileged: true}},
		{`"volume_driver": "x"`, "config.volume_driver", "volumes { enabled", Policy{AllowVolumes: true}},
	} {
		_, err := asked(t, Policy{}, c.block)
		if !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), c.names) ||
			!strings.Contains(err.Error(), c.way) {
			t.Errorf("%s: %v", c.block, err)
		}
		if _, err := asked(t, c.allow, c.block); err != nil {
			t.Errorf("%s, where it is allowed: %v", c.block, err)
		}
	}
	node := func(cfg *driver.TaskConfig) { cfg.CSIPluginNode = true }
	if _, err := asked(t, Policy{}, ``, node); !fault.Has(err, fault.Denied) ||
		!strings.Contains(err.Error(), "csi_plugin") {
		t.Errorf("a storage plugin of the node: %v", err)
	}
	got, err := asked(t, Policy{AllowPrivileged: true}, ``, node, func(cfg *driver.TaskConfig) {
		cfg.Mounts = []driver.Mount{{Source: "/p", Target: "/csi", Propagation: "bidirectional"}}
	})
	const mounted = `{"Type":"bind","Source":"/p","Target":"/csi","BindOptions":{"Propagation":"rshared"}}`
	if err != nil || !strings.Contains(got, `"CapDrop":["ALL"]`) || !strings.Contains(got, `"SYS_ADMIN"`) ||
		!strings.Contains(got, mounted) {
		t.Errorf("a storage plugin where it is allowed: %s, %v", got, err)
	}
	// What the agent does not allow is taken from what the daemon gives, and what jobs write is taken as it is.
	if got, err := asked(t, Policy{AllowCaps: []string{"chown"}}, ``); err != nil ||
		!strings.Contains(got, `"CapDrop":["NET_RAW","AUDIT_WRITE","DAC_OVERRIDE"`) {
		t.Errorf("capabilities: %s, %v", got, err)
	}
}

// TestLabelsOfTheAgentAreItsOwn: given a job that labels its container as the agent labels its own, then it has none of
// these labels: by one of them the container would be taken for something that is removed.
func TestLabelsOfTheAgentAreItsOwn(t *testing.T) {
	got, err := asked(t, Policy{}, `"labels": {"berth.network": "x", "com.hashicorp.nomad.job_id": "y", "mine": "z"}`)
	if err != nil || strings.Contains(got, "berth.network") || strings.Contains(got, "nomad.job_id") ||
		!strings.Contains(got, `"mine":"z"`) {
		t.Errorf("%v: %s", err, got)
	}
}

// TestAnAgentsLoggingIsItsOwn: given an agent that has output sent somewhere, then a job cannot send it elsewhere by
// changing an option of that.
func TestAnAgentsLoggingIsItsOwn(t *testing.T) {
	p := Policy{LogType: "gelf", LogOptions: map[string]string{"gelf-address": "udp://127.0.0.1:1"}}
	const want = `"LogConfig":{"Type":"gelf","Config":{"gelf-address":"udp://127.0.0.1:1"}}`
	if got, err := asked(t, p, ``); err != nil || !strings.Contains(got, want) {
		t.Errorf("%v: %s", err, got)
	}
	_, err := asked(t, p, `"logging": [{"config": {"gelf-address": "unix:///run/x"}}]`)
	if !fault.Has(err, fault.Denied) {
		t.Errorf("another address: %v", err)
	}
	p = Policy{LogType: "local", LogOptions: map[string]string{"max-size": "9g"}}
	if got, err := asked(t, p, ``); err != nil || !strings.Contains(got, `"max-size":"9g"`) {
		t.Errorf("the agent's own size: %v: %s", err, got)
	}
}

// Given options that cannot be, then the task is refused with the option's name.
func TestWhatCannotBeIsRefusedByName(t *testing.T) {
	inNetwork := func(cfg *driver.TaskConfig) { cfg.Network = &driver.Network{Namespace: "/run/n"} }
	for _, c := range []struct{ block, names string }{
		{`"ulimit": {"nofile": "many"}`, "config.ulimit.nofile"},
		{`"ports": ["nope"]`, "config.ports"},
		{`"memory_hard_limit": 10`, "config.memory_hard_limit"},
		{`"cpu_cfs_period": 1`, "config.cpu_cfs_period"},
		{`"volumes": ["x"]`, "config.volumes"},
		{`"volumes": ["local:/"]`, "mount target"},
		{`"mount": [{"type": "tmpfs", "target": "/proc"}]`, "mount target"},
		{`"mount": [{"type": "what", "target": "/x"}]`, "config.mount[0].type"},
		{`"mount": [{"type": "bind", "source": "local"}]`, "config.mount[0].target"},
		{`"imige": "x"`, "config.imige"},
		{`"image": ""`, "config.image"},
		{`"cgroupns": "what"`, "config.cgroupns"},
		{`"volumes": ["local:/x:frob"]`, "config.volumes"},
		{`"oom_score_adj": -500`, "config.oom_score_adj"},
		{`"pids_limit": -1`, "config.pids_limit"},
		{`"work_dir": "x"`, "config.work_dir"},
		{`"logging": [{"config": {"max-size": "-1"}}]`, "config.logging"},
		{`"logging": [{"config": {"max-size": ""}}]`, "config.logging"},
		{`"logging": [{"type": "local", "config": {"max-size": "1g", "max-file": "2"}}]`, "config.logging"},
		{`"logging": [{"config": {"mode": "non-blocking", "max-buffer-size": "100g"}}]`, "config.logging"},
		{`"mount": [{"type": "bind", "source": "local", "target": "/x", "tmpfs_options": [{"size": 1}]}]`,
			"tmpfs_options"},
		{`"mount": [{"type": "tmpfs", "target": "/x", "bind_options": [{"propagation": "private"}]}]`,
			"bind_options"},
		{`"mount": [{"type": "bind", "source": "local", "target": "/x", "bind_options": [{"propagation": "x"}]}]`,
			"propagation"},
		{`"mount": [{"type": "tmpfs", "target": "relative"}]`, "mount target"},
	} {
		_, err := asked(t, Policy{}, c.block)
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v", c.block, err)
		}
	}
	for _, block := range []string{`"network_mode": "host"`, `"ports": ["http"]`, `"hostname": "x"`,
		`"dns_servers": ["1.1.1.1"]`} {
		if _, err := asked(t, Policy{}, block, inNetwork); !fault.Has(err, fault.Invalid) {
			t.Errorf("%s in a group's network: %v", block, err)
		}
	}
}
