// Package consulagent starts the real program of Consul for tests: one agent that is its own server, with its state in
// a directory of the test's, so that it can be killed and come back. `make consul` builds the program, once, outside of
// the tree.
package consulagent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/internal/model/consul"
	"berth/internal/testkit/freeport"
)

// Node is the name of the agent in its catalog.
const Node = "consul-of-the-test"

// version is that of tools/consul.
const version = "1.22.3"

// Agent is an agent that runs.
type Agent struct {
	t     testing.TB
	path  string
	dir   string
	ports []int
	cmd   *exec.Cmd
	turns int    // of the check of Settled
	lists string // what its configuration has of access lists; empty: it has none
	Proxy *Proxy
	GRPC  int // the port where it sends Envoy its configuration, by TLS; -1: there is none

	secured string // what its configuration has of certificates
}

// asked says what is to become of tests that need the program: "later" has them skipped, for they are played again when
// it is built, and with "must" one that is not there is a failure.
const asked = "CONSUL_TESTS"

// Program is the path of the program; the test is skipped where it was not built, unless it must be there.
func Program(t testing.TB) string {
	t.Helper()
	if os.Getenv(asked) == "later" {
		t.Skip("it needs the program of Consul, and is played by make test-consul when that is built")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "berth", "consul-"+version)
	if _, err := os.Stat(path); err != nil && os.Getenv(asked) == "must" {
		t.Fatalf("the program of Consul is not there: make consul builds %s", path)
	} else if err != nil {
		t.Skipf("the program of Consul is not there: make consul builds %s", path)
	}
	return path
}

// Start starts one; the test is skipped where the program was not built, unless it must be there.
func Start(t testing.TB) *Agent {
	t.Helper()
	return start(t, "")
}

func start(t testing.TB, lists string) *Agent {
	t.Helper()
	a := &Agent{
		t:     t,
		path:  Program(t),
		dir:   t.TempDir(),
		lists: lists,
		GRPC:  -1,
	}
	a.begin()
	return a
}

// StartSecured is Start with a port for Envoy, where it shows a certificate, whose files are these.
func StartSecured(t *testing.T, cert, key string) *Agent {
	t.Helper()
	a := &Agent{
		t:    t,
		path: Program(t),
		dir:  t.TempDir(),
		GRPC: freeport.Pick(t),
	}
	a.secured = fmt.Sprintf(" tls { grpc { cert_file = %q key_file = %q } }", cert, key)
	a.begin()
	return a
}

func (a *Agent) begin() {
	a.t.Helper()
	for range 3 {
		a.ports = append(a.ports, freeport.Pick(a.t))
	}
	a.Up()
	a.t.Cleanup(a.Kill)
	a.Proxy = newProxy(a.t, a.URL())
}

// URL is where its API is.
func (a *Agent) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", a.ports[0]) }

// Up starts it after Kill, and waits until its catalog answers.
func (a *Agent) Up() {
	a.t.Helper()
	out, err := os.OpenFile(filepath.Join(a.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	a.cmd = exec.Command(a.path, "agent", "-server", "-bootstrap-expect=1", "-node="+Node, "-bind=127.0.0.1",
		"-client=127.0.0.1", "-data-dir="+filepath.Join(a.dir, "data"), "-hcl", fmt.Sprintf(
			"performance { raft_multiplier = 1 } disable_update_check = true leave_on_terminate = false "+
				"ports { http = %d, server = %d, serf_lan = %d, serf_wan = -1, dns = -1, grpc = -1, grpc_tls = %d }",
			a.ports[0], a.ports[1], a.ports[2], a.GRPC)+a.lists+a.secured)
	a.cmd.Stdout, a.cmd.Stderr = out, out
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.Until("the catalog knows the agent", func() bool {
		reply, err := a.send(http.MethodGet, "/v1/health/node/"+Node, nil)
		if err != nil {
			return false
		}
		defer func() { _ = reply.Body.Close() }()
		text, _ := io.ReadAll(reply.Body)
		// Without a token that it knows it says so, when it knows of any.
		return bytes.Contains(text, []byte("serfHealth")) || reply.StatusCode == http.StatusForbidden
	})
}

// Output is what the program prints when it is run by arguments, and asks this agent.
func (a *Agent) Output(args ...string) []byte {
	a.t.Helper()
	cmd := exec.Command(a.path, args...)
	cmd.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+a.URL())
	out, err := cmd.Output()
	if err != nil {
		a.t.Fatalf("consul %q: %v\n%s", args, err, out)
	}
	return out
}

// Kill kills it; what it has on disk stays.
func (a *Agent) Kill() {
	if a.cmd != nil {
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
		a.cmd = nil
	}
}

// hang is when a test has waited for too long. It is no bound of what is tested. Longer does not help where that was
// seen: an agent that was killed and came back synced a service as it began, and nothing of it in four minutes more.
const hang = time.Minute

// Until waits until something holds; what it is stands in the failure.
func (a *Agent) Until(what string, holds func() bool) {
	a.t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	a.t.Fatalf("it never came to be that %s, until %s\n%s", what, time.Now().UTC().Format(clock), a.tail("", 4000))
}

// clock is how times are written beside those of the agent's log.
const clock = "15:04:05.000"

// tail is the end of the agent's log, of the lines that contain a text.
func (a *Agent) tail(of string, most int) string {
	log, _ := os.ReadFile(filepath.Join(a.dir, "log"))
	var out strings.Builder
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, of) {
			out.WriteString(line)
		}
	}
	return out.String()[max(0, out.Len()-most):]
}

// trace says when a test has failed how a service stands.
func (a *Agent) trace(name string) {
	if a.t.Failed() {
		a.t.Log(a.Trace(name))
	}
}

// Trace is what agent and catalog have of a service, and what was said of it and when.
func (a *Agent) Trace(name string) string {
	ask := func(path string) string {
		reply, err := a.send(http.MethodGet, path, nil)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = reply.Body.Close() }()
		text, _ := io.ReadAll(reply.Body)
		return string(text)
	}
	filter := "filter=" + url.QueryEscape(fmt.Sprintf("Service == %q", name))
	return fmt.Sprintf("the agent has %s\nthe catalog has %s\nasked of the agent:\n%s\nits log:\n%s",
		ask("/v1/agent/services?"+filter), ask("/v1/catalog/service/"+name+"?consistent"),
		strings.Join(a.Proxy.of(name), "\n"), a.tail("-"+name+"-", 8000))
}

func (a *Agent) send(method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequest(method, a.URL()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if a.lists != "" {
		req.Header.Set("X-Consul-Token", Management)
	}
	return http.DefaultClient.Do(req)
}

// Do sends a request, and reads the answer into v.
func (a *Agent) Do(method, path string, body, v any) {
	a.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			a.t.Fatal(err)
		}
	}
	status, said := 0, []byte(nil)
	a.Until("Consul has a leader", func() bool {
		reply, err := a.send(method, path, text)
		if err != nil {
			a.t.Fatal(err)
		}
		defer func() { _ = reply.Body.Close() }()
		if said, err = io.ReadAll(reply.Body); err != nil {
			a.t.Fatal(err)
		}
		status = reply.StatusCode
		return !leaderless(status, said)
	})
	if status != http.StatusOK {
		a.t.Fatalf("%s %s: %d %s", method, path, status, said)
	}
	if v != nil {
		if err := json.Unmarshal(said, v); err != nil {
			a.t.Fatal(err)
		}
	}
}

// leaderless reports whether an answer says that nobody leads Consul's servers at the moment, as when the machine is
// so busy that the one that there is takes itself for cut off: what was asked was not begun.
func leaderless(status int, said []byte) bool {
	return status == http.StatusInternalServerError && (bytes.Contains(said, []byte("No cluster leader")) ||
		bytes.Contains(said, []byte("Not ready to serve consistent reads")))
}

// Shown is an instance of a service as the catalog shows it.
type Shown struct {
	ServiceID, ServiceName, ServiceAddress string
	ServicePort                            int
	ServiceTags                            []string
	ServiceMeta                            map[string]string
	ServiceEnableTagOverride               bool
}

// Catalog is what the catalog shows of a service.
func (a *Agent) Catalog(name string) (out []Shown) {
	a.t.Helper()
	a.Do(http.MethodGet, "/v1/catalog/service/"+name+"?consistent", nil, &out)
	return out
}

// Tags waits until the catalog shows one instance of a service, with these tags and no others.
func (a *Agent) Tags(name string, tags ...string) Shown {
	a.t.Helper()
	defer a.trace(name)
	var all []Shown
	a.Until(fmt.Sprintf("%s has the tags %q alone", name, tags), func() bool {
		all = a.Catalog(name)
		return len(all) == 1 && consul.SameTags(all[0].ServiceTags, tags)
	})
	return all[0]
}

// Edit writes other tags into the catalog, as people and programs do that want requests sent elsewhere.
func (a *Agent) Edit(s Shown, tags ...string) {
	a.t.Helper()
	a.Proxy.tell("edited in the catalog "+s.ServiceID, tags)
	a.Do(http.MethodPut, "/v1/catalog/register", map[string]any{
		"Node":           Node,
		"SkipNodeUpdate": true,
		"Service": map[string]any{
			"ID":                s.ServiceID,
			"Service":           s.ServiceName,
			"Address":           s.ServiceAddress,
			"Port":              s.ServicePort,
			"Tags":              tags,
			"Meta":              s.ServiceMeta,
			"EnableTagOverride": s.ServiceEnableTagOverride,
		},
	}, nil)
}

// Settled waits until the catalog shows all that the agent has been asked to change: it pushes services before checks,
// and so this is when it shows the turn of a check that came last. What somebody writes into the catalog before that is
// overwritten by Consul itself.
func (a *Agent) Settled() {
	a.t.Helper()
	if a.turns == 0 {
		a.Do(http.MethodPut, "/v1/agent/service/register", map[string]any{
			"ID":    "settled",
			"Name":  "settled",
			"Check": map[string]any{"CheckID": "settled", "Name": "settled", "TTL": "24h"},
		}, nil)
	}
	a.turns++
	status := []string{consul.Warning, consul.Passing}[a.turns%2]
	a.Do(http.MethodPut, "/v1/agent/check/update/settled", map[string]any{"Status": status}, nil)
	a.Until("the catalog shows all", func() bool { return a.Status("settled")["settled"] == status })
}

// Status is what each check of a service has found, by the names of the checks.
func (a *Agent) Status(name string) map[string]string {
	a.t.Helper()
	var all []struct{ Name, Status string }
	a.Do(http.MethodGet, "/v1/health/checks/"+name, nil, &all)
	out := map[string]string{}
	for _, c := range all {
		out[c.Name] = c.Status
	}
	return out
}

// Proxy stands in front of an agent, and counts what it is asked to change.
type Proxy struct {
	URL   string
	away  atomic.Bool
	mu    sync.Mutex
	seen  []string
	dated []string // the same with times and tags
	asked map[string]int
}

func newProxy(t testing.TB, to string) *Proxy {
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{asked: map[string]int{}}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
		w.WriteHeader(http.StatusBadGateway)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		p.mu.Lock()
		p.asked[r.URL.Path]++
		p.mu.Unlock()
		if r.Method == http.MethodPut {
			p.note(r)
		}
		forward.ServeHTTP(w, r)
	})}
	p.URL = "http://" + l.Addr().String()
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return p
}

func (p *Proxy) note(r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	var named struct {
		ID   string
		Tags []string
	}
	_ = json.Unmarshal(text, &named)
	p.mu.Lock()
	defer p.mu.Unlock()
	said := strings.TrimPrefix(r.URL.Path, "/v1/agent/") + " " + named.ID
	p.seen = append(p.seen, said)
	p.dated = append(p.dated, fmt.Sprintf("%s %s %q", time.Now().UTC().Format(clock), said, named.Tags))
}

// tell notes what is done past it.
func (p *Proxy) tell(what string, tags []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dated = append(p.dated, fmt.Sprintf("%s %s %q", time.Now().UTC().Format(clock), what, tags))
}

// of is what was asked about a service, and when.
func (p *Proxy) of(name string) (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.dated {
		if strings.Contains(t, "-"+name+"-") {
			out = append(out, t)
		}
	}
	return out
}

// Away has the proxy answer as an agent that cannot, until it is set back.
func (p *Proxy) Away(away bool) { p.away.Store(away) }

// Asked is how often each path was asked for.
func (p *Proxy) Asked() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.asked)
}

// Registrations counts those of services whose id contains a text.
func (p *Proxy) Registrations(of string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		if strings.HasPrefix(s, "service/register ") && strings.Contains(s, of) {
			n++
		}
	}
	return n
}

// Seen is all that was asked to be changed.
func (p *Proxy) Seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.seen...)
}
