package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"berth/internal/model/consul"
	"berth/internal/testkit/consulagent"
)

// inConsul is a job that serves HTTP and is found in Consul.
func inConsul(name, tags string) string {
	return fmt.Sprintf(`
job %[1]q {
  group "g" {
    network {
      port "http" {}
    }
    update {
      min_healthy_time = "0s"
    }
    task "serve" {
      driver         = "raw_exec"
      shutdown_delay = "1s"
      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server", "$${NOMAD_PORT_http}", "--bind", "127.0.0.1", "--directory", "$${NOMAD_TASK_DIR}"]
      }
      service {
        name                = %[1]q
        port                = "http"
        tags                = [%[2]s]
        enable_tag_override = true
        meta {
          alloc = "$${NOMAD_ALLOC_ID}"
        }
        check {
          name     = "http"
          type     = "tcp"
          interval = "1s"
          timeout  = "1s"
        }
        check {
          name     = "script"
          type     = "script"
          command  = "/bin/true"
          interval = "1s"
          timeout  = "1s"
        }
      }
    }
  }
}
`, name, tags)
}

// TestServicesAreFoundInConsul: given an agent of Consul beside ours, then a job's service is registered there with its
// checks, both of which pass; a tag that somebody writes outlives a check that turns, another job, and an agent of ours
// that is killed, at which nothing is registered anew; and with the end of the job it is gone, before its task is.
func TestServicesAreFoundInConsul(t *testing.T) {
	c := consulagent.Start(t)
	m := prepare(t, false)
	m.service = true
	m.append(fmt.Sprintf("consul {\n  address = %q\n}\nplugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n",
		c.Proxy.URL))
	m.start()
	m.run(inConsul("web", `"blue"`))
	shown := c.Tags("web", "blue")
	if shown.ServiceMeta["alloc"] == "" || shown.ServicePort == 0 {
		t.Errorf("%+v", shown)
	}
	passing := func() bool {
		s := c.Status("web")
		return len(s) == 2 && s["http"] == consul.Passing && s["script"] == consul.Passing
	}
	c.Until("both checks pass", passing)
	c.Edit(shown, "green")
	own := shown.ServiceID
	c.Until("the agent has heard of it", func() bool { return c.Proxy.Registrations(own) == 2 })
	m.run(inConsul("other", `"x"`))
	c.Tags("other", "x")
	c.Tags("web", "green")
	for _, want := range []string{"[green]", "yes"} {
		if out := m.mustCLI("service", "info", "web"); !strings.Contains(out, want) {
			t.Errorf("service info lacks %q:\n%s", want, out)
		}
	}

	m.kill()
	m.start()
	m.run(inConsul("third", `"y"`))
	c.Tags("third", "y")
	c.Tags("web", "green")
	if n := c.Proxy.Registrations(own); n != 2 || !passing() {
		t.Errorf("it was registered %d times, its checks are %v", n, c.Status("web"))
	}
	if seen := strings.Join(c.Proxy.Seen(), "\n"); strings.Contains(seen, "deregister/_berth") {
		t.Errorf("something was taken out:\n%s", seen)
	}

	m.run(inConsul("web", `"red"`)) // its own edit is a write, too
	c.Tags("web", "red")
	m.mustCLI("job", "stop", "web")
	c.Until("it is found no more", func() bool { return len(c.Catalog("web")) == 0 })
	for _, name := range []string{"other", "third"} {
		m.mustCLI("job", "stop", name)
	}
	var node struct{ Services map[string]any }
	c.Until("Consul's own service is alone", func() bool {
		c.Do(http.MethodGet, "/v1/catalog/node/"+consulagent.Node, nil, &node)
		return len(node.Services) == 1
	})
}
