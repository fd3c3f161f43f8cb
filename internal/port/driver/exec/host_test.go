package exec

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
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
	for _, c := range []string{"setuid", "setgid", "dac_override", "dac_read_search", "sys_ptrace", "sys_admin"} {
		if !slices.Contains(reaching, c) {
			t.Errorf("%s is harmless?", c)
		}
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
		f.Attributes["driver.exec"] != "1" {
		t.Errorf("attributes %v", f.Attributes)
	}
}
