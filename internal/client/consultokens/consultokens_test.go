package consultokens_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/client/consultokens"
	"berth/internal/client/identities"
	model "berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/model/workload"
	"berth/internal/port/consul"
)

// lists is a Consul that believes one identity.
type lists struct {
	mu      sync.Mutex
	url     string
	logins  int
	tokens  map[string]bool
	refuses bool
	expires bool
	unknown int      // so many looks at a new token find none
	by      []string // by which tokens something was changed
}

func newLists(t *testing.T) *lists {
	t.Helper()
	l := &lists{tokens: map[string]bool{"node": true}}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

func (l *lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	token := r.Header.Get("X-Consul-Token")
	switch {
	case r.URL.Path == "/v1/acl/login":
		var body struct{ AuthMethod, BearerToken string }
		if json.NewDecoder(r.Body).Decode(&body) != nil || l.refuses || body.AuthMethod != "method" ||
			!strings.HasPrefix(body.BearerToken, "signed for ") {
			http.Error(w, "Permission denied", http.StatusForbidden)
			return
		}
		l.logins++
		made := fmt.Sprintf("token-%d", l.logins)
		l.tokens[made] = true
		end := ""
		if l.expires {
			end = `, "ExpirationTime": "2030-01-01T00:00:00Z"`
		}
		_, _ = fmt.Fprintf(w, `{"AccessorID": "a", "SecretID": %q%s}`, made, end)
	case !l.tokens[token]:
		http.Error(w, "ACL not found", http.StatusForbidden)
	case r.URL.Path == "/v1/acl/token/self" && l.unknown > 0:
		l.unknown--
		http.Error(w, "ACL not found", http.StatusForbidden)
	case r.URL.Path == "/v1/acl/logout":
		delete(l.tokens, token)
	case r.URL.Path == "/v1/acl/token/self":
		_, _ = w.Write([]byte(`{"AccessorID": "a"}`))
	default:
		l.by = append(l.by, r.URL.Path+" by "+token)
	}
}

// signers are the servers.
type signers struct{ derived int }

func (s *signers) ServiceToken(context.Context, ids.Alloc, string, string) (redact.Secret, error) {
	s.derived++
	return redact.New("node"), nil
}

func (*signers) Sign(_ context.Context, id ids.Alloc, task string, names []string) ([]identities.Signed, error) {
	return []identities.Signed{{Token: redact.New(fmt.Sprintf("signed for %s %s %s", id, task, names))}}, nil
}

func (*signers) SignService(_ context.Context, id ids.Alloc, task, service, port string) (identities.Signed, error) {
	return identities.Signed{Token: redact.New(fmt.Sprintf("signed for %s %s %s %s", id, task, service, port))}, nil
}

func keeper(t *testing.T, l *lists, dir string) *consultokens.Keeper {
	t.Helper()
	agent, err := consul.New(consul.Config{Address: l.url, Token: redact.New("node")})
	if err != nil {
		t.Fatal(err)
	}
	return consultokens.New(consultokens.Config{
		Agent:         agent,
		Servers:       &signers{},
		Lists:         true,
		ServiceMethod: "method",
		TaskMethod:    "method",
		Secrets:       func(ids.Alloc, string) string { return dir },
	})
}

func withIdentity() consultokens.Service {
	return consultokens.Service{
		ID:    "_berth-n-a-web",
		Alloc: "a",
		Task:  "app",
		Of:    &job.Service{Name: "web", PortLabel: "http", Identity: &job.WorkloadIdentity{Name: "x"}},
	}
}

// TestAServiceIsRegisteredByItsOwnToken: Consul gives it one for its identity, which outlives the agent for root alone,
// and is given back at the end; a service without an identity is registered by the node's.
func TestAServiceIsRegisteredByItsOwnToken(t *testing.T) {
	l, dir := newLists(t), t.TempDir()
	l.unknown = 2
	of := withIdentity()
	for range 3 { // agents, one after another
		k := keeper(t, l, dir)
		agent, err := k.Agent(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		if err := agent.Register(t.Context(), &model.Service{ID: of.ID, Name: "web"}, nil); err != nil {
			t.Error(err)
		}
		if err := k.Known(of).Tell(t.Context(), "c", model.Passing, ""); err != nil {
			t.Error(err)
		}
	}
	plain := withIdentity()
	plain.Of = &job.Service{Name: "web"}
	k := keeper(t, l, dir)
	agent, err := k.Agent(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Deregister(t.Context(), "p"); err != nil {
		t.Error(err)
	}
	for i, by := range l.by {
		if want := "token-1"; i < 6 && !strings.HasSuffix(by, want) || i == 6 && !strings.HasSuffix(by, "node") {
			t.Errorf("%d: %s", i, by)
		}
	}
	if l.logins != 1 || len(l.by) != 7 {
		t.Errorf("%d logins, %q", l.logins, l.by)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	if st, err := os.Stat(found[0]); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	for range 2 {
		if err := k.Release(t.Context(), of); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 || len(l.tokens) != 1 {
		t.Errorf("files %q, tokens %v", left, l.tokens)
	}
}

// TestNothingStandsInForAnIdentity: when Consul does not believe it, or its tokens would end by themselves, there is no
// token, and nothing is done by the node's.
func TestNothingStandsInForAnIdentity(t *testing.T) {
	l, dir := newLists(t), t.TempDir()
	k, of := keeper(t, l, dir), withIdentity()
	l.refuses = true
	if agent, err := k.Agent(t.Context(), of); agent != nil || !fault.Has(err, fault.Denied) ||
		strings.Contains(err.Error(), "signed for") {
		t.Errorf("%v, %v", agent, err)
	}
	if err := k.Known(of).Tell(t.Context(), "c", model.Passing, ""); !fault.Has(err, fault.Denied) {
		t.Errorf("what its script found is told by another token: %v", err)
	}
	if _, err := k.Task(t.Context(), "a", "app"); !fault.Has(err, fault.Denied) {
		t.Errorf("a task: %v", err)
	}
	l.refuses, l.expires = false, true
	if _, err := k.Agent(t.Context(), of); !fault.Has(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "MaxTokenTTL") {
		t.Errorf("%v", err)
	}
	if len(l.by) != 0 || len(l.tokens) != 1 {
		t.Errorf("%q was done, tokens are %v", l.by, l.tokens)
	}
}

// TestATaskOfTheMeshHasTheTokenOfItsService: by the identity of the service where it has one, and of the servers
// otherwise; only the first is returned by the node.
func TestATaskOfTheMeshHasTheTokenOfItsService(t *testing.T) {
	l := newLists(t)
	k, of := keeper(t, l, t.TempDir()), withIdentity()
	token, err := k.Mesh(t.Context(), "a", "proxy", "", of.Of)
	if err != nil || token.Reveal() != "token-1" || !k.ByIdentity(of.Of) {
		t.Errorf("%s, %v", token.Reveal(), err)
	}
	of.Of.Identity = nil
	token, err = k.Mesh(t.Context(), "a", "proxy", "", of.Of)
	if err != nil || token.Reveal() != "node" || k.ByIdentity(of.Of) || l.logins != 1 {
		t.Errorf("%s, %v", token.Reveal(), err)
	}
}

// TestATaskCannotHoldUpTokensByAPipe: what lies where a service's token would be belongs to the task's directory. A
// pipe there, that the task keeps open, is none, and is replaced; it holds up neither this service nor others.
func TestATaskCannotHoldUpTokensByAPipe(t *testing.T) {
	l, dir := newLists(t), t.TempDir()
	of := withIdentity()
	at := filepath.Join(dir, "consul_service_"+ids.Segment(of.ID))
	if err := unix.Mkfifo(at, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(at, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }() // it also lets a read end that should not be
	done := make(chan error, 1)
	go func() {
		_, err := keeper(t, l, dir).Agent(t.Context(), of)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the pipe is waited for")
	}
	if st, err := os.Lstat(at); err != nil || !st.Mode().IsRegular() {
		t.Fatalf("the pipe is still there: %v", err)
	}
	if text, err := os.ReadFile(at); err != nil || string(text) != "token-1" {
		t.Errorf("the token is not in the place of the pipe: %q, %v", text, err)
	}
}

// TestATaskAsksAsItself: by the token of its identity; where there is none for it, by nobody's; and without an identity
// by the node's.
func TestATaskAsksAsItself(t *testing.T) {
	l := newLists(t)
	l.tokens["own"] = true
	k := keeper(t, l, t.TempDir())
	with := &job.Task{Identities: []*job.WorkloadIdentity{{Name: workload.ForConsul}}}
	for _, c := range []struct {
		task  *job.Task
		token string
		want  string
	}{{with, "own", "own"}, {&job.Task{}, "own", "node"}, {&job.Task{}, "", "node"}} {
		agent, err := k.AsTask(c.task, redact.New(c.token))
		if err != nil {
			t.Fatal(err)
		}
		if err := agent.Deregister(t.Context(), "x"); err != nil {
			t.Error(err)
		}
		if by := l.by[len(l.by)-1]; !strings.HasSuffix(by, "by "+c.want) {
			t.Errorf("asked %s, want %s", by, c.want)
		}
	}
	if _, err := k.AsTask(with, redact.Secret{}); !fault.Has(err, fault.NotReady) {
		t.Errorf("without its token: %v", err)
	}
	agent, err := consul.New(consul.Config{Address: l.url, Token: redact.New("node")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consultokens.New(consultokens.Config{Agent: agent}).AsTask(with, redact.New("own")); err == nil {
		t.Error("a node that turns no identity into a token has the task ask by another's")
	}
}
