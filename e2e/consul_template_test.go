package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/testkit/consulagent"
)

// readsConsul is a job whose templates read a key, at which its task restarts, and a service, of which it hears by a
// signal.
func readsConsul(name, key string) string {
	return fmt.Sprintf(`
job %q {
  group "g" {
    update {
      min_healthy_time = "0s"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          say() { echo "$1 $(cat local/key) $(cat local/service)"; }
          trap 'say signalled' HUP
          say started
          while :; do sleep 0.1; done
        EOT
        ]
      }
      template {
        data        = "{{ key \"%s\" }}"
        destination = "local/key"
        splay       = "0s"
      }
      template {
        data        = "{{ range service \"web\" }}{{ .ID }}:{{ .Port }} {{ end }}"
        destination = "local/service"
        change_mode = "signal"
        splay       = "0s"
      }
    }
  }
}
`, name, key)
}

// TestATemplateFollowsConsul: given a Consul that denies what no token allows, and an agent whose own token reads no
// key, then a task's templates read by the token of its identity; what changes restarts and signals it, also after
// Consul was away, during which it runs on and an event says so; and a job whose key it may not read waits, and an
// event names the key and why, until it may.
func TestATemplateFollowsConsul(t *testing.T) {
	c := consulagent.StartWithLists(t)
	t.Setenv("CONSUL_HTTP_ADDR", c.URL())
	t.Setenv("CONSUL_HTTP_TOKEN", consulagent.Management)
	m := newMachine(t, false)
	rules := filepath.Join(m.root, "rules.hcl")
	may := `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" } key "kv/a" { policy = "read" }`
	must(t, os.WriteFile(rules, []byte(may), 0o600))
	m.mustCLI("setup", "consul", "-jwks-url", m.address()+"/.well-known/jwks.json", "-task-rules", rules, "-apply")
	var node struct{ SecretID string }
	c.Do(http.MethodPut, "/v1/acl/token", map[string]any{
		"Description": "the agent", "Policies": []map[string]string{{"Name": "berth-servers"}},
	}, &node)
	token := filepath.Join(m.root, "token")
	must(t, os.WriteFile(token, []byte(node.SecretID), 0o600))
	m.append(fmt.Sprintf(`
consul {
  address    = %q
  token_file = %q
  service_identity {
    aud = ["consul.io"]
    ttl = "1h"
  }
  task_identity {
    aud = ["consul.io"]
    ttl = "1h"
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
`, c.URL(), token))
	m.kill()
	m.start()

	put := func(path, value string) {
		t.Helper()
		c.Do(http.MethodPut, "/v1/kv/"+path, value, nil)
	}
	register := func(port int) {
		t.Helper()
		c.Do(http.MethodPut, "/v1/agent/service/register", map[string]any{"ID": "w", "Name": "web", "Port": port}, nil)
	}
	put("kv/a", "one")
	put("kv/b", "two")
	register(80)
	m.run(readsConsul("reads", "kv/a"))
	a := m.running("reads", 1)[0]
	says := func(line string) {
		t.Helper()
		m.eventually("the task to say "+line, func() bool {
			out, _ := m.cli("alloc", "logs", a.ID, "t")
			return strings.Contains(out, line)
		})
	}
	tells := func(job string, words ...string) {
		t.Helper()
		m.eventually(fmt.Sprintf("an event of %s to tell %q", job, words), func() bool {
			all, _, err := m.api.Jobs().Allocations(t.Context(), job, true, nil)
			must(t, err)
			text := ""
			for _, one := range all {
				if state := one.TaskStates["t"]; state != nil {
					for _, e := range state.Events {
						text += e.DisplayMessage + "\n"
					}
				}
			}
			for _, w := range words {
				if !strings.Contains(text, w) {
					return false
				}
			}
			return true
		})
	}
	says(`started "one" w:80`)
	put("kv/a", "three")
	says(`started "three" w:80`)
	register(81)
	says(`signalled "three" w:81`)

	c.Kill()
	tells("reads", "What was rendered stays", "of Consul")
	c.Up()
	m.eventually("Consul to know its tokens again", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL()+"/v1/acl/token/self", nil)
		must(t, err)
		req.Header.Set("X-Consul-Token", consulagent.Management)
		reply, err := http.DefaultClient.Do(req)
		return err == nil && reply.Body.Close() == nil && reply.StatusCode == http.StatusOK
	})
	put("kv/a", "four")
	says(`started "four" w:81`)

	m.run(readsConsul("denied", "kv/b"))
	tells("denied", `waits for Consul`, `key "kv/b" of Consul`, "403")
	var policy struct{ ID string }
	c.Do(http.MethodGet, "/v1/acl/policy/name/berth-tasks", nil, &policy)
	c.Do(http.MethodPut, "/v1/acl/policy/"+policy.ID, map[string]string{
		"Name": "berth-tasks", "Rules": may + ` key "kv/b" { policy = "read" }`,
	}, nil)
	m.running("denied", 1)
	for _, name := range []string{"reads", "denied"} {
		m.mustCLI("job", "stop", name)
	}
}
