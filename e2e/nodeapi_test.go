package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/testkit/freeport"
)

// TestTheAPIOfANodeAlone: given an agent with a node and no server, when commands are run on its machine with a token
// that the servers know, then they work as they do beside a server, over its socket and its port, and are judged by
// the token: root of the machine is nobody without one, and so is who shows one that is a character longer or shorter.
func TestTheAPIOfANodeAlone(t *testing.T) {
	m := prepare(t, false)
	m.service = true
	addr := net.JoinHostPort("127.0.0.1", fmt.Sprint(m.port))
	m.append(fmt.Sprintf("addresses {\n  rpc = \"127.0.0.1\"\n}\nports {\n  rpc  = %d\n  http = %d\n}\n", m.port,
		freeport.Pick(t)))
	file := filepath.Join(m.root, "agent.hcl")
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, bytes.Replace(text, []byte("acl { enabled = false }\n"), nil, 1), 0o600))
	m.start()
	n := elsewhere(t, "far", addr)
	m.joinToken(n)
	n.launch()
	far := m.ready("far")
	secret := m.tokenFor(`namespace "default" {
  policy       = "write"
  capabilities = ["alloc-node-exec"]
}
node { policy = "read" }
agent { policy = "read" }`)
	port := "http://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(n.port))

	for _, at := range []string{"unix://" + n.socket(), port} {
		for _, shown := range []string{"", secret + "0", secret[:len(secret)-1], "local:uid 0"} {
			out, code := n.cli("-address", at, "-token", shown, "node", "status")
			if code == 0 || !strings.Contains(out, "Permission denied") {
				t.Errorf("%s with the token %q: exit %d\n%s", at, shown, code, out)
			}
			c := n.client(api.Config{Address: at, Token: api.Credential(shown)})
			_, _, err := c.Jobs().Register(t.Context(), &api.JobRegisterRequest{Job: &api.Job{}}, nil)
			if err == nil || !strings.Contains(err.Error(), "Permission denied") {
				t.Errorf("%s with the token %q registers a job: %v", at, shown, err)
			}
		}
		with := func(args ...string) string {
			t.Helper()
			out, code := n.cli(append([]string{"-address", at, "-token", secret}, args...)...)
			if code != 0 {
				t.Fatalf("%s: %v ends with %d\n%s", at, args, code, out)
			}
			return out
		}
		if out := with("node", "status"); !strings.Contains(out, far.ID[:8]) {
			t.Errorf("the node is not in\n%s", out)
		}
		n.runFile(shellJob("here", "raw_exec", "echo hello; exec sleep 100000", ""), with)
		a := m.running("here", 1)[0]
		m.eventually("its output to come", func() bool {
			return strings.Contains(with("alloc", "logs", a.ID), "hello")
		})
		if out := with("alloc", "exec", "-i=false", "-t=false", a.ID, "/bin/echo", "inside"); out != "inside\n" {
			t.Errorf("a command beside the task says %q", out)
		}
		if out, code := n.cli("-address", at, "-token", secret, "job", "status", "-namespace", "default2"); code == 0 {
			t.Errorf("what is not the token's namespace is shown:\n%s", out)
		}
		if out, code := n.cli("-address", at, "-token", secret, "operator", "join-token", "list"); code == 0 {
			t.Errorf("join tokens are shown:\n%s", out)
		}
		with("job", "stop", "-purge", "-y", "here")
		m.eventually("the job to be gone", func() bool {
			all, _, err := m.api.Jobs().List(context.Background(), nil)
			return err == nil && len(all) == 0
		})
	}
}

// tokenFor makes a token with rules, and returns its secret.
func (m *machine) tokenFor(rules string) string {
	m.t.Helper()
	must(m.t, m.api.ACL().PutPolicy(m.t.Context(), &api.ACLPolicy{Name: "some", Rules: rules}))
	token, err := m.api.ACL().PutToken(m.t.Context(), &api.ACLToken{Type: "client", Policies: []string{"some"}})
	must(m.t, err)
	return token.SecretID
}

// runFile runs a job file with a way to run commands.
func (m *machine) runFile(hcl string, run func(...string) string) {
	m.t.Helper()
	path := m.root + "/job.hcl"
	must(m.t, os.WriteFile(path, []byte(hcl), 0o600))
	run("job", "run", "-detach", path)
}
