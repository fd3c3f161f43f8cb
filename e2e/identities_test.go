package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// shower is a job whose task has an identity for the API and one for others.
const shower = `
job "shower" {
  group "g" {
    update {
      min_healthy_time = "0s"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          test -S /secrets/api.sock && test "$NOMAD_UNIX_ADDR" = unix:///secrets/api.sock && echo started
          trap 'echo renewed' USR1
          while :; do sleep 0.1; done
        EOT
        ]
      }
      identity {
        file = true
      }
      identity {
        name          = "others"
        aud           = ["others.example.com"]
        file          = true
        ttl           = "5s"
        change_mode   = "signal"
        change_signal = "SIGUSR1"
      }
    }
  }
}
`

// TestOthersCheckIdentitiesByThePublishedKeys: given a task with identities, then its socket refuses who shows none and
// takes its own for what its job may read; the keys that are published check the other one, by another program's
// library alone; it is renewed with a signal; and a killed agent restarts nothing, and has the socket back.
func TestOthersCheckIdentitiesByThePublishedKeys(t *testing.T) {
	m := newMachine(t, false)
	secret := filepath.Join(m.root, "value")
	must(t, os.WriteFile(secret, []byte("v"), 0o600))
	if out, code := m.cli("var", "put", "nomad/jobs/shower", "a=@"+secret); code != 0 {
		t.Fatal(out)
	}
	m.run(shower)
	a := m.running("shower", 1)[0]
	started := func() string {
		out, _ := m.cli("alloc", "logs", a.ID, "t")
		return out
	}
	secrets := filepath.Join(m.root, "d", "alloc", a.ID, "t", "secrets")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(secrets, name))
		must(t, err)
		return string(text)
	}
	own, others := read("nomad_token"), read("nomad_others.jwt")
	ask := func(path, token string) int {
		return askSocket(t, filepath.Join(secrets, "api.sock"), path, token, nil)
	}
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/v1/var/nomad/jobs/shower", own, 200},
		{"/v1/status/leader", "", 403},
		{"/v1/var/nomad/jobs/shower", "", 403},
		{"/v1/var/nomad/jobs/other", own, 403},
		{"/v1/jobs", own, 403},
		{"/v1/agent/servers", own, 403},
		{"/v1/status/leader", others, 403},
		{"/v1/status/leader", own[:len(own)-8] + "AAAAAAAA", 403},
	} {
		if got := ask(c.path, c.token); got != c.want {
			t.Errorf("%s with %.12s…: %d, want %d", c.path, c.token, got, c.want)
		}
	}
	var keys jose.JSONWebKeySet
	if got := askSocket(t, filepath.Join(secrets, "api.sock"), "/.well-known/jwks.json", own, &keys); got != 200 {
		t.Fatalf("the keys: %d", got)
	}
	token, err := jwt.ParseSigned(others, []jose.SignatureAlgorithm{jose.RS256})
	must(t, err)
	var claims jwt.Claims
	must(t, token.Claims(&keys, &claims))
	must(t, claims.Validate(jwt.Expected{Time: time.Now(), AnyAudience: jwt.Audience{"others.example.com"}}))
	if claims.Subject != "global:default:shower:g:t:others" {
		t.Errorf("it is of %s", claims.Subject)
	}
	m.kill()
	m.start()
	m.eventually("the socket to answer again", func() bool { return ask("/v1/var/nomad/jobs/shower", own) == 200 })
	m.eventually("the other one to be renewed", func() bool {
		return read("nomad_others.jwt") != others && strings.Contains(started(), "renewed")
	})
	if read("nomad_token") != own || strings.Count(started(), "started") != 1 {
		t.Errorf("the killed agent changed what the task has: %s", started())
	}
	m.stopJob("shower")
}

// askSocket asks as a task does, and returns the status; into takes the answer, if any.
func askSocket(t *testing.T, socket, path, token string, into any) int {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		dir, err := os.Open(filepath.Dir(socket)) // its path may be longer than a socket's
		if err != nil {
			return nil, err
		}
		defer func() { _ = dir.Close() }() // opened for its path
		return new(net.Dialer).DialContext(ctx, "unix",
			fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://task"+path, nil)
	must(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if into != nil {
		must(t, json.NewDecoder(resp.Body).Decode(into))
	}
	return resp.StatusCode
}
