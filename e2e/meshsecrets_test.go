package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// besideAnEnvoy is a group whose proxy is said to be an Envoy: it is given the file that one begins with, and sleeps.
const besideAnEnvoy = `
  group "envoy" {
    meta = {
      "connect.proxy" = "envoy"
    }
    network {
      mode = "bridge"
    }
    service {
      name = "envoy"
      port = "9002"
      connect {
        sidecar_service {}
        sidecar_task {
          driver = "raw_exec"
          config {
            command = "sleep"
            args    = ["100000"]
          }
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

// found is a place in which a token stands.
type found struct{ secret, at string }

// secretsOfConsul are tokens by what they are, and where each may stand: files of its own task alone.
type secretsOfConsul struct {
	m      *meshed
	tokens map[string]string // by what they are
	own    map[string]string // the secrets directory that a token belongs to
}

func (s *secretsOfConsul) in(text []byte) (out []string) {
	for what, token := range s.tokens {
		if strings.Contains(string(text), token) {
			out = append(out, what)
		}
	}
	return out
}

// everywhere looks through logs, command lines, environments, answers of the API and the data directory.
func (s *secretsOfConsul) everywhere() (out []found) {
	add := func(text []byte, at string) {
		for _, what := range s.in(text) {
			out = append(out, found{what, at})
		}
	}
	text, err := os.ReadFile(s.m.logPath())
	must(s.m.t, err)
	add(text, "the agent's log")
	for _, of := range []string{"cmdline", "environ"} {
		all, err := filepath.Glob("/proc/[0-9]*/" + of)
		must(s.m.t, err)
		for _, path := range all {
			if text, err := os.ReadFile(path); err == nil { // it may have ended
				add(text, path)
			}
		}
	}
	must(s.m.t, filepath.WalkDir(s.m.data, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		text, rerr := os.ReadFile(path)
		if err != nil || rerr != nil {
			return errors.Join(err, ignoreGone(rerr))
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		for _, what := range s.in(text) {
			if s.own[what] != filepath.Dir(path) || info.Mode().Perm() != 0o600 {
				out = append(out, found{what, fmt.Sprintf("%s %s", info.Mode(), path)})
			}
		}
		return nil
	}))
	for path, text := range s.answers() {
		add(text, path)
	}
	return out
}

// ignoreGone takes files for none that went meanwhile, and those of the kernel that are namespaces and cannot be read.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// answers is what the API says of all that there is.
func (s *secretsOfConsul) answers() map[string][]byte {
	m := s.m
	paths := strings.Fields(`jobs job/mesh job/mesh/allocations job/mesh/versions job/mesh/evaluations job/mesh/deployments
		job/mesh/summary allocations nodes evaluations deployments agent/self agent/members agent/health metrics services
		vars namespaces operator/snapshot operator/raft/configuration event/stream?index=0 client/stats
		agent/monitor?log_level=debug`)
	allocs, _, err := m.api.Allocations().List(m.t.Context(), nil)
	must(m.t, err)
	for _, a := range allocs {
		paths = append(paths, "allocation/"+a.ID, "node/"+a.NodeID, "client/allocation/"+a.ID+"/stats",
			"client/allocation/"+a.ID+"/checks", "client/fs/ls/"+a.ID+"?path=/", "allocation/"+a.ID+"/services")
		for task := range a.TaskStates {
			for _, file := range []string{"si_token", "envoy_bootstrap.json"} {
				paths = append(paths, "client/fs/cat/"+a.ID+"?path="+task+"/secrets/"+file)
			}
			for _, of := range []string{"stdout", "stderr"} {
				paths = append(paths, fmt.Sprintf("client/fs/logs/%s?task=%s&type=%s&plain=true", a.ID, task, of))
			}
		}
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", m.socket())
		},
	}}
	out, good := map[string][]byte{}, 0
	for _, path := range paths {
		ctx, cancel := context.WithTimeout(m.t.Context(), patience)
		if strings.Contains(path, "stream") || strings.Contains(path, "monitor") {
			cancel()
			ctx, cancel = context.WithTimeout(m.t.Context(), time.Second) // it runs out: a stream has no end of its own
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://berth/v1/"+path, nil)
		must(m.t, err)
		reply, err := client.Do(req)
		if err != nil {
			m.t.Errorf("%s: %v", path, err)
			cancel()
			continue
		}
		text, _ := io.ReadAll(reply.Body) // up to the end of the time
		_ = reply.Body.Close()
		cancel()
		if reply.StatusCode == http.StatusOK {
			good++
		}
		out["/v1/"+path] = append(text, fmt.Sprint(reply.Header)...)
	}
	if good < len(paths)/2 {
		m.t.Errorf("of %d answers %d are good", len(paths), good)
	}
	return out
}

// TestTokensOfConsulStandInFilesOfTheirTasksAlone: given a Consul that denies everything, a meshed pair and one that
// begins as an Envoy, when each has its token and the agent has its own, then none of them stands in a log, on a
// command line, in an environment, in an answer of the API or in the data directory, but for the files of the task that
// it is for, which nobody else reads; and with the job they are revoked, and nowhere.
func TestTokensOfConsulStandInFilesOfTheirTasksAlone(t *testing.T) {
	const management = "7d8e5b1f-3a52-4c0b-9e65-1f7a2b3c4d5e"
	m := meshedBy(t, management)
	m.run(strings.TrimSuffix(strings.TrimSpace(inTheMesh), "}") + besideAnEnvoy)
	must(t, m.ask(http.MethodPut, "/v1/connect/intentions/exact?source=web&destination=api",
		map[string]string{"Action": "allow"}, nil))
	web := m.allocOf("web")
	m.eventually("bytes flow", func() bool { return m.said(web.ID) == "hello by the mesh" })
	s := &secretsOfConsul{
		m:      m,
		tokens: map[string]string{"the agent's": management},
		own:    map[string]string{},
	}
	for _, group := range []string{"api", "web", "envoy"} {
		dir := filepath.Join(m.data, "alloc", m.allocOf(group).ID, "connect-proxy-"+group, "secrets")
		text, err := os.ReadFile(filepath.Join(dir, "si_token"))
		must(t, err)
		s.tokens[group], s.own[group] = string(text), dir
		if len(s.tokens[group]) < 36 {
			t.Fatalf("the token of %s has %d bytes", group, len(text))
		}
	}
	bootstrap, err := os.ReadFile(filepath.Join(s.own["envoy"], "envoy_bootstrap.json"))
	if must(t, err); len(s.in(bootstrap)) != 1 {
		t.Errorf("the file of Envoy has the tokens %q, not its own", s.in(bootstrap))
	}
	for _, f := range s.everywhere() {
		t.Errorf("the token of %s stands in %s", f.secret, f.at)
	}
	m.kill()
	m.start()
	m.eventually("bytes flow after a restart", func() bool { return m.said(web.ID) == "hello by the mesh" })
	for _, f := range s.everywhere() {
		t.Errorf("after a restart the token of %s stands in %s", f.secret, f.at)
	}
	m.stopJob("mesh")
	m.eventually("the tokens to be revoked", func() bool {
		var all []struct{ Description string }
		must(t, m.ask(http.MethodGet, "/v1/acl/tokens", nil, &all))
		for _, token := range all {
			if strings.HasPrefix(token.Description, "Berth: ") {
				return false
			}
		}
		return true
	})
	clear(s.own)
	for _, f := range s.everywhere() {
		t.Errorf("when all has ended the token of %s stands in %s", f.secret, f.at)
	}
}
