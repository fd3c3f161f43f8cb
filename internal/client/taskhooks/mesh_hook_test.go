package taskhooks_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/lifecycle"
	"berth/internal/client/hook"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/driver"
)

// ways are sockets that note which directories they were opened in.
type ways struct{ open map[string]bool }

func (w *ways) Open(dir string) (bool, error) { w.open[dir] = true; return true, nil }
func (w *ways) Close(dir string) error        { delete(w.open, dir); return nil }

// proxied is a task that is the proxy of the service web, with a token.
func proxied(t *testing.T, config map[string]any, events *[]string) *hook.Task {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "secrets", taskhooks.MeshTokenFile)
	if err := os.WriteFile(token, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	web := &job.Service{Name: "web", Connect: &job.Connect{SidecarService: &job.SidecarService{}}}
	proxy := &job.Task{Name: "p", Kind: job.KindOf(job.RoleProxy, "web"), Config: config}
	g := &job.TaskGroup{Name: "g", Services: []*job.Service{web}, Tasks: []*job.Task{proxy}}
	return &hook.Task{
		Alloc:     &alloc.Alloc{ID: "a", TaskGroup: "g"},
		Job:       &job.Job{TaskGroups: []*job.TaskGroup{g}},
		Group:     g,
		Task:      proxy,
		TaskDir:   dir,
		Out:       hook.Output{Env: map[string]string{}},
		Variables: func() map[string]string { return map[string]string{"NOMAD_SECRETS_DIR": "/secrets"} },
		Emit:      func(e *alloc.TaskEvent) { *events = append(*events, e.DisplayMessage) },
	}
}

func meshHook(registered func(string) error, moved func() <-chan struct{}) (*taskhooks.Mesh, *ways) {
	w := &ways{open: map[string]bool{}}
	return &taskhooks.Mesh{
		HTTP:       w,
		GRPC:       &ways{open: map[string]bool{}},
		Node:       func() *node.Node { return &node.Node{ID: "n"} },
		Registered: registered,
		Moved:      moved,
	}, w
}

func never() <-chan struct{} { return nil }

// TestEnvoyFindsItsFileAndNobodyElseItsToken: given a proxy that is an Envoy, then the file that it begins with lies in
// its secrets directory, with the token, which is in none of its variables; and at its end its ways are taken away.
func TestEnvoyFindsItsFileAndNobodyElseItsToken(t *testing.T) {
	var events []string
	task := proxied(t, map[string]any{"image": "envoy"}, &events)
	h, w := meshHook(func(string) error { return nil }, never)
	if err := h.Prestart(context.Background(), task); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(task.TaskDir, "secrets", consul.BootstrapFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"canary", "/secrets/grpc.sock", "_berth-n-a-group-g-web--sidecar-proxy"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the file lacks %s:\n%s", part, text)
		}
	}
	if len(task.Out.Env) != 0 || len(events) != 0 || !w.open[filepath.Join(task.TaskDir, "secrets")] {
		t.Errorf("it has the variables %v, the events %q and the ways %v", task.Out.Env, events, w.open)
	}
	if err := h.Stop(context.Background(), task); err != nil || len(w.open) != 0 {
		t.Errorf("ways are left: %v, %v", w.open, err)
	}
}

// TestTheFileOfEnvoyIsReadByWhomItIsFor: by the task's user alone, but where the image says who that is.
func TestTheFileOfEnvoyIsReadByWhomItIsFor(t *testing.T) {
	for isolation, want := range map[driver.Isolation]os.FileMode{
		driver.IsolationNone:   0o600,
		driver.IsolationChroot: 0o600,
		driver.IsolationImage:  0o644,
	} {
		var events []string
		task := proxied(t, map[string]any{"image": "envoy"}, &events)
		task.DriverInfo.Capabilities.FSIsolation = isolation
		h, _ := meshHook(func(string) error { return nil }, never)
		if err := h.Prestart(context.Background(), task); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(filepath.Join(task.TaskDir, "secrets", consul.BootstrapFile))
		if err != nil || st.Mode() != want {
			t.Errorf("isolated by %v it has the mode %v, not %v: %v", isolation, st.Mode(), want, err)
		}
	}
}

// TestTheBuiltInProxyLearnsForWhomItWorks: by variables that name the file of its token, and not the token.
func TestTheBuiltInProxyLearnsForWhomItWorks(t *testing.T) {
	var events []string
	task := proxied(t, map[string]any{"command": consul.BuiltinProgram}, &events)
	h, _ := meshHook(func(string) error { return nil }, never)
	if err := h.Prestart(context.Background(), task); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"CONSUL_HTTP_ADDR":       "unix:///secrets/consul.sock",
		"CONSUL_HTTP_TOKEN_FILE": "/secrets/si_token",
		consul.EnvSidecarFor:     "_berth-n-a-group-g-web-",
	} {
		if got := task.Out.Env[name]; got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(task.TaskDir, "secrets", consul.BootstrapFile)); !os.IsNotExist(err) {
		t.Errorf("it has a file of Envoy's: %v", err)
	}
}

// TestAProxyWaitsUntilConsulKnowsIt: it says each reason once, and begins when Consul knows both it and its service.
func TestAProxyWaitsUntilConsulKnowsIt(t *testing.T) {
	var events []string
	var moved lifecycle.Signal
	task := proxied(t, map[string]any{"image": "envoy"}, &events)
	asked := 0
	h, _ := meshHook(func(string) error {
		switch asked++; {
		case asked <= 2:
			moved.Notify()
			return errors.New("it is away")
		case asked == 3:
			moved.Notify()
			return errors.New("it denies that")
		}
		return nil
	}, moved.C)
	if err := h.Prestart(context.Background(), task); err != nil {
		t.Fatal(err)
	}
	if len(events) != 2 || !strings.Contains(events[0], "away") || !strings.Contains(events[1], "denies") {
		t.Errorf("it says %q", events)
	}
}

// TestAProxyWithoutConsulDoesNotStart: a node whose agent speaks to no Consul says so.
func TestAProxyWithoutConsulDoesNotStart(t *testing.T) {
	var events []string
	task := proxied(t, nil, &events)
	if err := (&taskhooks.Mesh{}).Prestart(context.Background(), task); err == nil ||
		!strings.Contains(err.Error(), "speaks to no Consul") {
		t.Error(err)
	}
	task.Task.Kind = ""
	if err := (&taskhooks.Mesh{}).Prestart(context.Background(), task); err != nil {
		t.Errorf("a task that is no proxy: %v", err)
	}
}
