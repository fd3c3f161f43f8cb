package compat

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// agent is a running berth agent with a public client.
type agent struct {
	*api.Client
	plain *api.Client // as it is out of the box: it opens WebSockets only over a transport of its own
	t     *testing.T
	calls *calls
	// socket is where the agent has its API beside the port.
	socket string
	first  *api.ACLToken // it may do everything
	again  func()        // kills the agent, and starts another
}

// calls notes what was asked of the agent, by method and path without ids, and which of it was answered well.
type calls struct {
	next http.RoundTripper
	mu   sync.Mutex
	seen map[string]bool
}

var names = regexp.MustCompile(
	`^(/v1/(?:jobs?|node/pool|node|allocation|evaluation|deployment/[a-z-]{4,17}|deployment|` +
		`namespace|service|volume/csi|volume/host|plugin/csi|client/allocation|client/fs/[a-z]+|` +
		`scaling/policy|acl/policy|acl/role/name|acl/role|acl/token)/)([^/]+)`)

// RoundTrip implements http.RoundTripper.
func (c *calls) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil && resp.StatusCode < http.StatusMultipleChoices {
		path := r.URL.EscapedPath()
		if path != "/v1/jobs/parse" && path != "/v1/node/pools" {
			path = names.ReplaceAllString(path, "$1*")
		}
		c.note(r.Method + " " + path)
	}
	return resp, err
}

func (c *calls) note(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[call] = true
}

func (c *calls) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.seen))
}

// build makes the real binary, its helper first.
func build(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "berth")
	for _, argv := range [][]string{{"make", "-s", "helper"},
		{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "./cmd/berth"}} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, text)
		}
	}
	return out
}

// freePort finds a port on which nobody listens, of those that the kernel gives to nobody by itself.
func freePort(t *testing.T) int {
	t.Helper()
	var err error
	for range 100 {
		port := 10_000 + rand.IntN(10_000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatalf("no port is free: %v", err)
	return 0
}

// settings are those of an agent whose clients show tokens, and that lets the first one be made by its port.
const settings = `
api { socket = %q }
acl {
  enabled             = true
  bootstrap_over_http = true
}
`

// start runs a development agent until the test ends, and sees to it that nothing is left. Its clients show the first
// token.
func start(t *testing.T) *agent {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the agent needs root: it makes namespaces, cgroups and mounts")
	}
	binary, port := build(t), freePort(t)
	dir, err := os.MkdirTemp("", "berth-compat-") // short: sockets live in it
	if err != nil {
		t.Fatal(err)
	}
	socket, config := filepath.Join(dir, "api.sock"), filepath.Join(t.TempDir(), "agent.hcl")
	if err := os.WriteFile(config, fmt.Appendf(nil, settings, socket), 0o600); err != nil {
		t.Fatal(err)
	}
	_, again := launch(t, dir, binary, "-dev", "-config", config, "-http-port", fmt.Sprint(port))
	a := &agent{t: t, calls: &calls{next: &http.Transport{}, seen: map[string]bool{}}, socket: socket, again: again}
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	a.Client, err = api.NewClient(&api.Config{Address: address, HttpClient: &http.Client{Transport: a.calls}})
	if err != nil {
		t.Fatal(err)
	}
	if a.plain, err = api.NewClient(&api.Config{Address: address}); err != nil {
		t.Fatal(err)
	}
	a.eventually("the first token is made", func() (err error) {
		a.first, _, err = a.ACLTokens().BootstrapOpts("", nil)
		return err
	})
	a.SetSecretID(a.first.SecretID)
	a.plain.SetSecretID(a.first.SecretID)
	a.eventually("the bundled plugin is healthy", func() error {
		p, _, err := a.CSIPlugins().Info(plugin, nil)
		switch {
		case err != nil:
			return err
		case p.ControllersHealthy != 1 || p.NodesHealthy != 1:
			return fmt.Errorf("%d controllers and %d nodes", p.ControllersHealthy, p.NodesHealthy)
		}
		return nil
	})
	return a
}

// launch runs an agent whose data are in a directory, until the test ends or end is called; again kills it as a
// person's kill -9 does, and runs another. Nothing may be left of it, and nothing in its log be an error.
func launch(t *testing.T, dir, binary string, args ...string) (end, again func()) {
	t.Helper()
	var log bytes.Buffer
	var cmd *exec.Cmd
	begin := func() {
		cmd = exec.Command(binary, append([]string{"agent", "-data-dir", dir}, args...)...)
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	again = func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		begin()
	}
	end = sync.OnceFunc(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		timer := time.AfterFunc(60*time.Second, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			t.Errorf("the agent ended with %v", err)
		}
		timer.Stop()
	})
	t.Cleanup(func() {
		end()
		nothingLeft(t, dir)
		if strings.Contains(log.String(), "level=ERROR") || t.Failed() {
			t.Errorf("the agent's log:\n%s", log.String())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return end, again
}

// nothingLeft looks for mounts and processes of the agent.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			t.Errorf("a mount is left: %s", line)
		}
	}
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if text, err := os.ReadFile(p); err == nil && strings.Contains(string(text), dir) {
			t.Errorf("a process is left: %s %q", p, text)
		}
	}
}

// patience bounds every wait for what must come: far beyond what is normal, because the machine may be busy.
const patience = 2 * time.Minute

// eventually tries until fn has nothing to complain of.
func (a *agent) eventually(what string, fn func() error) {
	a.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := fn()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("%s: still not: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ok ends the test at an error.
func (a *agent) ok(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// refused wants an error with this text.
func (a *agent) refused(err error, text string) {
	a.t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		a.t.Errorf("got %v, want %q", err, text)
	}
}
