package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/api"
	"berth/internal/testkit/consulagent"
)

// meshed is a machine in a network of its own with a real agent of Consul there, whose program is found.
type meshed struct {
	*bridged
	consul http.Client
	token  string // by which the test asks; empty: as nobody
}

func newMeshed(t *testing.T) *meshed {
	t.Helper()
	return meshedBy(t, "")
}

// meshedBy is one whose Consul has access lists, if there is a token: that may do everything, and is the agent's, too.
func meshedBy(t *testing.T, token string) *meshed {
	t.Helper()
	program := consulagent.Program(t)
	m := &meshed{bridged: preparedBridged(t), token: token}
	bin, data := filepath.Join(m.root, "bin"), filepath.Join(m.root, "consul")
	for _, dir := range []string{bin, data} {
		must(t, os.Mkdir(dir, 0o755))
	}
	must(t, os.Symlink(program, filepath.Join(bin, "consul")))
	m.env = append(m.env, "PATH="+bin+":"+os.Getenv("PATH"))
	socket := filepath.Join(m.root, "consul.sock")
	config, lists := filepath.Join(data, "agent.hcl"), ""
	ours := fmt.Sprintf("  address = %q\n", "unix://"+socket)
	if token != "" {
		lists = fmt.Sprintf(`acl { enabled = true default_policy = "deny" tokens { initial_management = %[1]q
			agent = %[1]q } }`, token)
		file := filepath.Join(m.root, "consul.token")
		must(t, os.WriteFile(file, []byte(token), 0o600))
		ours += fmt.Sprintf("  token_file = %q\n", file)
	}
	must(t, os.WriteFile(config, fmt.Appendf(nil, "disable_update_check = true\n"+
		"addresses { http = \"127.0.0.1 unix://%s\" }\nports { dns = -1 }\n%s\n", socket, lists), 0o600))
	args := inNetwork(m.network, program, "agent", "-dev", "-node=mesh", "-bind=127.0.0.1", "-config-file="+config)
	cmd := exec.Command(args[0], args[1:]...)
	log, err := os.Create(filepath.Join(data, "log"))
	must(t, err)
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("Consul says\n%s", text[max(0, len(text)-3000):])
		}
	})
	m.consul.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	m.append(fmt.Sprintf("consul {\n%s}\nplugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n", ours))
	m.eventually("an authority of the mesh", func() bool {
		var roots struct{ ActiveRootID string }
		return m.ask(http.MethodGet, "/v1/connect/ca/roots", nil, &roots) == nil && roots.ActiveRootID != ""
	})
	m.start()
	return m
}

func (m *meshed) ask(method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, "http://consul"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if m.token != "" {
		req.Header.Set("X-Consul-Token", m.token)
	}
	reply, err := m.consul.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	said, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", path, reply.StatusCode, said)
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(said, into)
}

// inTheMesh is a pair: api answers on the loopback of its own network alone, web reaches it by its proxy.
const inTheMesh = `
job "mesh" {
  meta = {
    "connect.proxy" = "builtin"
  }
  group "api" {
    network {
      mode = "bridge"
    }
    service {
      name = "api"
      port = "9001"
      connect {
        sidecar_service {}
        sidecar_task {
          driver = "raw_exec"
        }
      }
    }
    task "serve" {
      driver = "raw_exec"
      config {
        command = "perl"
        args    = ["-e", <<S
use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 9001, Listen => 9, ReuseAddr => 1) or die;
while (my $c = $s->accept) { print $c "hello by the mesh\n"; close $c }
S
        ]
      }
    }
  }
  group "web" {
    network {
      mode = "bridge"
    }
    service {
      name = "web"
      connect {
        sidecar_service {
          proxy {
            upstreams {
              destination_name = "api"
              local_bind_port  = 5000
            }
          }
        }
        sidecar_task {
          driver = "raw_exec"
        }
      }
    }
    task "wait" {
      driver = "raw_exec"
      config {
        command = "sleep"
        args    = ["100000"]
      }
    }
  }
}`

// said is what an alloc hears at its upstream.
func (m *meshed) said(alloc string) string {
	out, _ := m.cli("alloc", "exec", "-task", "wait", alloc, "timeout", "5", "bash", "-c",
		`exec 3<>/dev/tcp/${NOMAD_UPSTREAM_ADDR_api/:/\/} && cat <&3`)
	return strings.TrimSpace(out)
}

func (m *meshed) allocOf(group string) *api.Allocation { return m.allocOfJob("mesh", group) }

func (m *meshed) allocOfJob(job, group string) *api.Allocation {
	a := m.of(job, group, func(a *api.AllocationListStub) bool {
		return a.ClientStatus == api.AllocClientStatusRunning
	})
	full, _, err := m.api.Allocations().Get(m.t.Context(), a.ID, nil)
	must(m.t, err)
	return full
}

// shown is the certificate that the proxy of a service shows who calls.
func (m *meshed) shown(port int) (leaf *x509.Certificate) {
	m.t.Helper()
	relay := exec.Command("nsenter", "--target", fmt.Sprint(m.network), "--net", "bash", "-c",
		fmt.Sprintf("exec 3<>/dev/tcp/%s/%d; cat <&3 & cat >&3", bridgedAddress, port))
	ours, theirs := net.Pipe()
	relay.Stdin, relay.Stdout = theirs, theirs
	relay.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(m.t, relay.Start())
	defer func() {
		_ = ours.Close()
		_ = syscall.Kill(-relay.Process.Pid, syscall.SIGKILL) // a group of its own
		_ = relay.Wait()                                      // it was killed
	}()
	_ = ours.SetDeadline(time.Now().Add(30 * time.Second))
	c := tls.Client(ours, &tls.Config{
		InsecureSkipVerify: true,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) (err error) {
			leaf, err = x509.ParseCertificate(raw[0])
			return errors.Join(err, errors.New("seen"))
		},
	})
	_ = c.Handshake() // it ends when the certificate was seen
	return leaf
}

// issuedBy reports whether the active authority of the mesh has issued a certificate.
func (m *meshed) issuedBy(leaf *x509.Certificate) (active, issued bool) {
	var roots struct {
		ActiveRootID string
		Roots        []struct{ ID, RootCert string }
	}
	if leaf == nil || m.ask(http.MethodGet, "/v1/connect/ca/roots", nil, &roots) != nil {
		return false, false
	}
	for _, r := range roots.Roots {
		block, _ := pem.Decode([]byte(r.RootCert))
		if block == nil {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err == nil && leaf.CheckSignatureFrom(cert) == nil {
			return r.ID == roots.ActiveRootID, true
		}
	}
	return false, false
}

// TestBytesFlowInTheMeshOfConsul: given a service that its own network alone reaches, behind Consul's built-in proxy,
// and another that has it as upstream, then bytes flow from one to the other; an intention that denies is obeyed until
// it allows again; a certificate of another authority is picked up; all goes on after a crash of our agent; and with
// the job both services and their proxies are gone.
func TestBytesFlowInTheMeshOfConsul(t *testing.T) {
	m := newMeshed(t)
	m.run(inTheMesh)
	server, web := m.allocOf("api"), m.allocOf("web")
	m.eventually("bytes flow", func() bool { return m.said(web.ID) == "hello by the mesh" })

	names := func() (out []string) {
		var all map[string]struct{ Service string }
		must(t, m.ask(http.MethodGet, "/v1/agent/services", nil, &all))
		for _, s := range all {
			out = append(out, s.Service)
		}
		slices.Sort(out)
		return out
	}
	if got := names(); !slices.Equal(got, []string{"api", "api-sidecar-proxy", "web", "web-sidecar-proxy"}) {
		t.Errorf("Consul has %q", got)
	}

	intend := func(action string) {
		must(t, m.ask(http.MethodPut, "/v1/connect/intentions/exact?source=web&destination=api",
			map[string]string{"Action": action}, nil))
	}
	intend("deny")
	m.eventually("what is denied to be kept out", func() bool { return m.said(web.ID) == "" })
	intend("allow")
	m.eventually("what is allowed to be let in", func() bool { return m.said(web.ID) == "hello by the mesh" })

	port := 0
	for _, p := range server.AllocatedResources.Shared.Ports {
		if p.Label == "connect-proxy-api" {
			port = p.Value
		}
	}
	before := m.shown(port)
	if active, issued := m.issuedBy(before); !active || !issued {
		t.Fatalf("the proxy shows a certificate that the mesh has not issued: %v", before)
	}
	must(t, m.ask(http.MethodPut, "/v1/connect/ca/configuration", map[string]any{
		"Provider": "consul",
		"Config":   map[string]any{"PrivateKeyType": "ec", "PrivateKeyBits": 384},
	}, nil))
	m.eventually("a certificate of the new authority", func() bool {
		after := m.shown(port)
		active, _ := m.issuedBy(after)
		return active && !bytes.Equal(after.Raw, before.Raw)
	})
	m.eventually("bytes flow with it", func() bool { return m.said(web.ID) == "hello by the mesh" })

	m.kill()
	m.start()
	m.eventually("bytes flow after a restart", func() bool { return m.said(web.ID) == "hello by the mesh" })
	if again := m.allocOf("web"); again.ID != web.ID {
		t.Errorf("the alloc is another one: %s", again.ID)
	}
	m.stopJob("mesh")
	m.eventually("Consul has none of them", func() bool { return len(names()) == 0 })
}
