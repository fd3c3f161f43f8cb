package exec

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
)

// Given where the shim writes a task's output, then the task sees it read-only: what it put there, such as a link, the
// shim would write through as root. A directory that the task does not see is not shown.
func TestATaskCannotWriteWhereItsOutputGoes(t *testing.T) {
	for dir, target := range map[string]string{
		"/a/logs":       "/alloc/logs",
		"/a/alloc/logs": "/alloc/alloc/logs",
		"/a":            "",
		"/b/logs":       "",
		"":              "",
	} {
		iso, err := privilegesOf(t, Config{}, func(tc *driver.TaskConfig) { tc.Logs.Dir = dir })
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for i, b := range iso.Binds {
			switch b.Target {
			case target:
				found = true
				if b.Source != dir || !b.ReadOnly {
					t.Errorf("%s is shown as %+v", dir, b)
				}
			case AllocPath, LocalPath, SecretsPath, TmpPath:
				if found {
					t.Errorf("%s: mount %d covers it: %+v", dir, i, b)
				}
			default:
				t.Errorf("%q: there is another mount: %+v", dir, b)
			}
		}
		if found != (target != "") {
			t.Errorf("%q: the mounts are %+v", dir, iso.Binds)
		}
	}
}

// Given an agent whose filter of system calls cannot be made, then no task is started without it, and the driver says
// why.
func TestNoTaskStartsWithoutItsFilter(t *testing.T) {
	cfg := Config{AllowSyscalls: []string{"no_such_call"}}
	if iso, err := privilegesOf(t, cfg, func(*driver.TaskConfig) {}); !fault.Has(err, fault.Invalid) {
		t.Errorf("%+v, %v", iso, err)
	}
	f := New(cfg, nil).Fingerprint(t.Context())
	if f.Health != driver.Unhealthy || !strings.Contains(f.Description, "no_such_call") {
		t.Errorf("the driver says %+v", f)
	}
	if iso, err := privilegesOf(t, Config{}, func(*driver.TaskConfig) {}); err != nil || len(iso.Filter) == 0 {
		t.Errorf("a task has a filter of %d bytes: %v", len(iso.Filter), err)
	}
}

// Given an agent whose tasks have users of their own, then what they cannot have with them is refused, and not left
// out: capabilities that mean nothing there, and mounts of the node that come later, whose users would be the node's.
func TestWhatTasksWithUsersOfTheirOwnCannotHave(t *testing.T) {
	cfg := Config{IDs: &driver.IDRange{First: 1 << 20, Last: 1<<21 - 1}, AllowCaps: []string{all}}
	adds := func(c string) func(*driver.TaskConfig) {
		return func(tc *driver.TaskConfig) { tc.Config["cap_add"] = []any{c} }
	}
	mounts := func(propagation string) func(*driver.TaskConfig) {
		return func(tc *driver.TaskConfig) {
			tc.Mounts = []driver.Mount{{Source: "/srv", Target: "/data", Propagation: propagation}}
		}
	}
	for name, c := range map[string]struct {
		change  func(*driver.TaskConfig)
		refused bool
	}{
		"nothing":                    {func(*driver.TaskConfig) {}, false},
		"chown":                      {adds("CAP_CHOWN"), false},
		"all":                        {adds("all"), false},
		"net_admin":                  {adds("net_admin"), true},
		"sys_admin":                  {adds("CAP_SYS_ADMIN"), true},
		"a mount":                    {mounts(""), false},
		"a private mount":            {mounts("private"), false},
		"a mount of what comes":      {mounts("slave"), true},
		"a mount by which what goes": {mounts("shared"), true},
	} {
		iso, err := privilegesOf(t, cfg, c.change)
		if fault.Has(err, fault.Unsupported) != c.refused || err == nil && iso.IDs != cfg.IDs ||
			err != nil && !c.refused {
			t.Errorf("%s: %+v, %v", name, iso, err)
		}
	}
}
