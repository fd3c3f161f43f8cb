package exec

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/node"
	"berth/internal/port/driver"
)

func privilegesOf(t *testing.T, cfg Config, change func(*driver.TaskConfig)) (*driver.IsolateSpec, error) {
	t.Helper()
	tc := &driver.TaskConfig{Task: "t", AllocDir: "/a", TaskDir: "/a/t", Config: map[string]any{"command": "true"}}
	change(tc)
	spec, err := New(cfg, nil).spec(tc)
	if err != nil {
		return nil, err
	}
	return spec.Isolate, nil
}

func TestHostModesAreRefusedUnlessTheAgentAllowsThem(t *testing.T) {
	for mode, option := range map[string]string{"pid_mode": "allow_host_pid", "ipc_mode": "allow_host_ipc"} {
		other := Config{
			AllowHostPID: mode == "ipc_mode",
			AllowHostIPC: mode == "pid_mode",
			AllowCSINode: true,
			AllowCaps:    []string{all},
		}
		for name, cfg := range map[string]Config{"by default": {}, "the other is allowed": other} {
			_, err := privilegesOf(t, cfg, func(tc *driver.TaskConfig) { tc.Config[mode] = "host" })
			if !fault.Has(err, fault.Denied) {
				t.Fatalf("%s, %s: %v", mode, name, err)
			}
			for _, word := range []string{mode, option, `plugin "exec"`, "${attr.driver.exec." + option + "}"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: the refusal does not say %q: %v", mode, word, err)
				}
			}
		}
	}
	if _, err := privilegesOf(t, Config{}, func(tc *driver.TaskConfig) {
		tc.Config["pid_mode"], tc.Config["ipc_mode"] = "private", "private"
	}); err != nil {
		t.Errorf("private modes: %v", err)
	}
}

func TestATaskThatSharesANamespaceCannotBecomeTheNode(t *testing.T) {
	cfg := Config{AllowHostPID: true, AllowHostIPC: true, AllowCaps: []string{all}}
	for _, mode := range []string{"pid_mode", "ipc_mode"} {
		for name, add := range map[string][]any{"default": nil, "all": {"all"}} {
			iso, err := privilegesOf(t, cfg, func(tc *driver.TaskConfig) {
				tc.Config[mode] = "host"
				if add != nil {
					tc.Config["cap_add"] = add
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range reaching {
				if slices.Contains(iso.Capabilities, c) || slices.Contains(iso.Ambient, c) {
					t.Errorf("%s, %s: the task has %s", mode, name, c)
				}
			}
			if !slices.Contains(iso.Capabilities, "net_bind_service") {
				t.Errorf("%s, %s: capabilities %v: a harmless one is gone", mode, name, iso.Capabilities)
			}
		}
		for _, c := range reaching {
			_, err := privilegesOf(t, cfg, func(tc *driver.TaskConfig) {
				tc.Config[mode], tc.Config["cap_add"] = "host", []any{"CAP_" + strings.ToUpper(c)}
			})
			if !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), `"`+c+`"`) {
				t.Errorf("%s with cap_add %s: %v", mode, c, err)
			}
		}
	}
	for _, c := range []string{"bpf", "checkpoint_restore", "chown", "dac_override", "dac_read_search", "fowner",
		"ipc_owner", "perfmon", "setgid", "setuid", "sys_admin", "sys_ptrace"} {
		if !slices.Contains(reaching, c) {
			t.Errorf("%s is harmless?", c)
		}
	}
}

// Given mounts at paths by which a task would have another root, /proc or /sys than the driver makes, however they are
// written, when it is started, then it is refused by the path and with a way out; a path that only begins alike is
// taken.
func TestNothingIsMountedOverWhatTheDriverMakes(t *testing.T) {
	at := func(target string) (*driver.IsolateSpec, error) {
		return privilegesOf(t, Config{}, func(tc *driver.TaskConfig) {
			tc.Mounts = []driver.Mount{{Source: "/srv", Target: target}}
		})
	}
	for _, target := range []string{"/", "", "data", "/..", "/proc", "/proc/", "/proc/sys/kernel", "//proc/1", "/sys",
		"/sys/fs/cgroup", "/data/../proc/sys", "/data/../../sys"} {
		_, err := at(target)
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), strconv.Quote(target)) ||
			!strings.Contains(err.Error(), "choose an absolute path") {
			t.Errorf("%q: %v", target, err)
		}
	}
	for target, clean := range map[string]string{
		"/processes": "/processes", "/system/": "/system", "/a/proc": "/a/proc",
	} {
		iso, err := at(target)
		if err != nil {
			t.Errorf("%q: %v", target, err)
		} else if last := iso.Binds[len(iso.Binds)-1]; last.Target != clean || last.Source != "/srv" {
			t.Errorf("%q: %+v", target, last)
		}
	}
}

// Given devices with a path of their own in the task and without, then each is shown where it shall be.
func TestADeviceKeepsItsPathUnlessItIsGivenAnother(t *testing.T) {
	iso, err := privilegesOf(t, Config{}, func(tc *driver.TaskConfig) {
		tc.Devices = []driver.Device{{HostPath: "/dev/null"}, {HostPath: "/dev/zero", TaskPath: "/dev/nil"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []driver.Device{
		{HostPath: "/dev/null", TaskPath: "/dev/null"},
		{HostPath: "/dev/zero", TaskPath: "/dev/nil"},
	}
	if !slices.Equal(iso.Devices, want) {
		t.Errorf("they are shown as %+v", iso.Devices)
	}
}

func TestANodePluginKeepsItsPrivilegesInAHostMode(t *testing.T) {
	node := func(tc *driver.TaskConfig) { tc.CSIPluginNode, tc.Config["pid_mode"] = true, "host" }
	iso, err := privilegesOf(t, Config{AllowCSINode: true}, node)
	if err != nil || !slices.Contains(iso.Capabilities, "sys_admin") {
		t.Errorf("%+v, %v", iso, err)
	}
	if _, err := privilegesOf(t, Config{}, node); !fault.Has(err, fault.Denied) {
		t.Errorf("on an agent that allows none: %v", err)
	}
}

func TestTheNodeTellsWhatItAllows(t *testing.T) {
	f := New(Config{AllowHostPID: true}, nil).Fingerprint(t.Context())
	if f.Attributes[attributeHostPID] != "1" || f.Attributes[attributeHostIPC] != "" ||
		f.Attributes[attributeCSINode] != "" || f.Attributes["driver.exec"] != "1" ||
		f.Attributes[attributeCaps] != strings.Join(DefaultCapabilities, ",") {
		t.Errorf("attributes %v", f.Attributes)
	}
	for want, allow := range map[string][]string{"net_admin,kill": {"CAP_NET_ADMIN", "kill"}, "none": {}} {
		f = New(Config{AllowCSINode: true, AllowCaps: allow}, nil).Fingerprint(t.Context())
		if f.Attributes[attributeCSINode] != "1" || f.Attributes[attributeCaps] != want {
			t.Errorf("attributes %v, want the capabilities %s", f.Attributes, want)
		}
	}
	// By these names the servers judge a job when it is submitted.
	for option, name := range map[string]string{
		node.PermitHostPID: attributeHostPID,
		node.PermitHostIPC: attributeHostIPC,
		node.PermitCSINode: attributeCSINode,
		node.PermitCaps:    attributeCaps,
	} {
		if node.Permission(Name, option) != name {
			t.Errorf("%s is %s, and servers look for %s", option, name, node.Permission(Name, option))
		}
	}
}
