package agent

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
	"berth/internal/port/users"
)

// TestAsWhomTasksRun: nobody, and never root, for exec; the agent's own for raw_exec; and what the file says.
func TestAsWhomTasksRun(t *testing.T) {
	for text, want := range map[string]struct {
		exec, raw users.Policy
	}{
		"": {
			exec: users.Policy{
				Default: "nobody", Denied: []string{"root"}, DeniedGIDs: []users.Range{{First: 0, Last: 0}},
			},
		},
		`plugin "exec" {
  config {
    default_user = "root"
    denied_users = []
  }
}`: {
			exec: users.Policy{Default: "root"},
		},
		`plugin "exec" {
  config {
    denied_host_uids = "0-99"
    denied_host_gids = "42"
  }
}
plugin "raw_exec" {
  config {
    default_user = "nobody"
    denied_users = ["root"]
  }
}`: {
			exec: users.Policy{
				Default: "nobody", Denied: []string{"root"}, DeniedUIDs: []users.Range{{First: 0, Last: 99}},
				DeniedGIDs: []users.Range{{First: 42, Last: 42}},
			},
			raw: users.Policy{Default: "nobody", Denied: []string{"root"}},
		},
	} {
		cfg := parse(t, "-config", write(t, t.TempDir(), "a.hcl", base+text))
		for name, want := range map[string]users.Policy{"exec": want.exec, "raw_exec": want.raw} {
			got, err := cfg.plugin(name).Users()
			if err != nil || got.Default != want.Default || !slices.Equal(got.Denied, want.Denied) ||
				!slices.Equal(got.DeniedUIDs, want.DeniedUIDs) || !slices.Equal(got.DeniedGIDs, want.DeniedGIDs) {
				t.Errorf("%s with %q: %+v, %v", name, text, got, err)
			}
		}
	}
}

// Given raw_exec, whose tasks are the agent's user unless they name one, when that user is denied and no other is named
// for them, then the agent does not start: they would be it for all that.
func TestTheAgentsOwnUserIsNoWayAroundItsDenial(t *testing.T) {
	self := strconv.Itoa(os.Geteuid())
	for text, ok := range map[string]bool{
		`denied_users = ["` + self + `"]`:                                   false,
		`denied_host_uids = "` + self + `"`:                                 false,
		"denied_users = [\"" + self + "\"]\ndefault_user = \"12345:12345\"": true,
		`denied_users = ["12345"]`:                                          true,
	} {
		path := write(t, t.TempDir(), "a.hcl", base+"plugin \"raw_exec\" {\n config {\n"+text+"\n}\n}\n")
		_, err := Parse([]string{"-config", path}, io.Discard)
		if ok && err != nil || !ok && !fault.Has(err, fault.Denied) {
			t.Errorf("%s: %v", text, err)
		}
		if !ok && err != nil && !strings.Contains(err.Error(), "name another default_user") {
			t.Errorf("%s: no way out: %v", text, err)
		}
	}
}

func TestADefaultThatIsDeniedIsRefused(t *testing.T) {
	for text, says := range map[string][]string{
		"default_user = \"root\"":                            {"default_user", "denied_users"},
		"default_user = \"\"":                                {"default_user", "nobody"},
		"denied_users = [\"nobody\"]":                        {"default_user", "denied_users"},
		"denied_host_uids = \"99-1\"":                        {"denied_host_uids", "99-1"},
		"denied_host_gids = \"root\"":                        {"denied_host_gids", "root"},
		"default_user = \"0:8765\"\ndenied_host_gids = \"\"": {"default_user", "denied_users"},
	} {
		path := write(t, t.TempDir(), "a.hcl", base+"plugin \"exec\" {\n config {\n"+text+"\n}\n}\n")
		_, err := Parse([]string{"-config", path}, io.Discard)
		if !fault.Has(err, fault.Invalid) && !fault.Has(err, fault.Denied) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, word := range append(says, `plugin "exec"`) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: it does not say %s: %v", text, word, err)
			}
		}
	}
}

// TestNumbersForUserNamespaces: one range that is none of the node's users', and long enough; all else is refused at
// the agent's start.
func TestNumbersForUserNamespaces(t *testing.T) {
	parse := func(driver, text string) (*Config, error) {
		path := write(t, t.TempDir(), "a.hcl", base+"plugin \""+driver+"\" {\n config {\n"+text+"\n}\n}\n")
		return Parse([]string{"-config", path}, io.Discard)
	}
	cfg, err := parse("exec", `user_namespaces = "1000000-1999999"`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cfg.plugin("exec").IDs()
	if err != nil || got == nil || *got != (driver.IDRange{First: 1000000, Last: 1999999}) || got.Allocs() != 15 {
		t.Errorf("the range: %+v, %v", got, err)
	}
	cfg, err = parse("exec", "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := cfg.plugin("exec").IDs(); got != nil || err != nil {
		t.Errorf("without the option: %+v, %v", got, err)
	}
	for text, says := range map[string]string{
		`""`:                        "one range",
		`"1000000-1999999,3000000"`: "one range",
		`"65535-1999999"`:           "below 65,536",
		`"1000000-1065534"`:         "too short",
		`"1000000-4294967295"`:      "4,294,967,295",
		`"1999999-1000000"`:         "1999999-1000000",
		`"many"`:                    "many",
	} {
		_, err := parse("exec", "user_namespaces = "+text)
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), `plugin "exec" user_namespaces`) {
			t.Errorf("%s: %v", text, err)
		}
	}
	_, err = parse("raw_exec", `user_namespaces = "1000000-1999999"`)
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "user_namespaces") {
		t.Errorf("for raw_exec: %v", err)
	}
}
