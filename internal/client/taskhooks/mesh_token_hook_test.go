package taskhooks_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/client/hook"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// asking are tokens that come by a function.
type asking struct {
	off   bool
	asked int
	mesh  func(ctx context.Context, call int) (redact.Secret, error)

	byIdentity bool
	away       error // instead of a return
	returned   []string
}

func (a *asking) Needed() bool { return !a.off }

func (a *asking) ByIdentity(*job.Service) bool { return a.byIdentity }

func (a *asking) Return(_ context.Context, token redact.Secret) error {
	a.returned = append(a.returned, token.Reveal())
	return a.away
}

func (a *asking) HasTask(t *job.Task) bool { return len(t.Identities) > 0 }

func (a *asking) Task(ctx context.Context, _ ids.Alloc, _ string) (redact.Secret, error) {
	a.asked++
	return a.mesh(ctx, a.asked)
}

func (a *asking) Mesh(
	ctx context.Context, _ ids.Alloc, _, owner string, of *job.Service,
) (redact.Secret, error) {
	a.asked++
	if of.Name != "web" || owner != "" {
		return redact.Secret{}, fault.New(fault.Denied, "", "", "another service")
	}
	return a.mesh(ctx, a.asked)
}

func given(context.Context, int) (redact.Secret, error) { return redact.New("canary"), nil }

// proxyTask is a task of the mesh in a directory of its own, and what was said to it.
func proxyTask(t *testing.T) (*hook.Task, *[]*alloc.TaskEvent) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	said := &[]*alloc.TaskEvent{}
	proxy := &job.Task{Name: "proxy", Kind: job.KindOf(job.RoleProxy, "web")}
	return &hook.Task{
		Alloc: &alloc.Alloc{ID: "a"},
		Group: &job.TaskGroup{
			Services: []*job.Service{{Name: "web", Connect: &job.Connect{SidecarService: &job.SidecarService{}}}},
			Tasks:    []*job.Task{proxy},
		},
		Task:    proxy,
		TaskDir: dir,
		Emit:    func(e *alloc.TaskEvent) { *said = append(*said, e) },
		Out:     hook.Output{Env: map[string]string{}},
	}, said
}

// TestATaskOfTheMeshFindsItsToken in a file that nobody else reads, which stays over starts and agents; a task outside
// of the mesh, and a node whose Consul asks for none, has none.
func TestATaskOfTheMeshFindsItsToken(t *testing.T) {
	x, said := proxyTask(t)
	a := &asking{mesh: given}
	h := &taskhooks.MeshToken{Tokens: a}
	for range 3 {
		if err := h.Prestart(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(x.TaskDir, "secrets", taskhooks.MeshTokenFile)
	text, err := os.ReadFile(path)
	st, serr := os.Stat(path)
	if err != nil || serr != nil || string(text) != "canary" || st.Mode() != 0o600 {
		t.Fatalf("%q, %v, %v, %v", text, st, err, serr)
	}
	if a.asked != 1 || len(*said) != 0 || len(x.Out.Env) != 0 {
		t.Errorf("asked %d times, said %v, in the environment %v", a.asked, *said, x.Out.Env)
	}
	outside, _ := proxyTask(t)
	outside.Task = &job.Task{Name: "app"}
	plain, _ := proxyTask(t)
	for _, c := range []struct {
		x *hook.Task
		a *asking
	}{{outside, &asking{mesh: given}}, {plain, &asking{mesh: given, off: true}}} {
		if err := (&taskhooks.MeshToken{Tokens: c.a}).Prestart(t.Context(), c.x); err != nil || c.a.asked != 0 {
			t.Errorf("%s: asked %d times, %v", c.x.Task.Name, c.a.asked, err)
		}
		if _, err := os.Stat(filepath.Join(c.x.TaskDir, "secrets", taskhooks.MeshTokenFile)); err == nil {
			t.Errorf("%s has a token", c.x.Task.Name)
		}
	}
}

// TestTheTokenIsOfTheTasksUser and of nobody else.
func TestTheTokenIsOfTheTasksUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("files are given to others by root alone")
	}
	x, _ := proxyTask(t)
	x.User = "4321:8765"
	if err := (&taskhooks.MeshToken{Tokens: &asking{mesh: given}}).Prestart(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(x.TaskDir, "secrets", taskhooks.MeshTokenFile), &st); err != nil ||
		st.Uid != 4321 || st.Gid != 8765 || st.Mode&0o777 != 0o600 {
		t.Errorf("it is of %d:%d with mode %o, %v", st.Uid, st.Gid, st.Mode, err)
	}
}

// TestALinkInThePlaceOfTheTokenLeadsNowhere: given a task that laid a link there, then neither what it leads to is
// written nor is it taken for a token.
func TestALinkInThePlaceOfTheTokenLeadsNowhere(t *testing.T) {
	x, _ := proxyTask(t)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(x.TaskDir, "secrets", taskhooks.MeshTokenFile)
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	if err := (&taskhooks.MeshToken{Tokens: &asking{mesh: given}}).Prestart(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "theirs" {
		t.Errorf("what it led to is %q now, %v", text, err)
	}
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
		t.Errorf("in its place is %v, %v", st, err)
	}
}

// TestAConsulThatNeverAnswersEndsTheTask by the deadline, with an event of its own and for good, and not because
// somebody else ended it.
func TestAConsulThatNeverAnswersEndsTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := proxyTask(t)
		a := &asking{mesh: func(ctx context.Context, _ int) (redact.Secret, error) {
			<-ctx.Done()
			return redact.Secret{}, fault.Wrap(ctx.Err(), fault.NotReady, "reach", "Consul")
		}}
		begun := time.Now()
		err := (&taskhooks.MeshToken{Tokens: a}).Prestart(t.Context(), x)
		var own *hook.Failure
		if !errors.As(err, &own) || own.Event != alloc.EventConsulToken || !own.Final ||
			!fault.Has(err, fault.Timeout) || !strings.Contains(err.Error(), `service "web" within 1m0s`) {
			t.Errorf("%v", err)
		}
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := (&taskhooks.MeshToken{Tokens: a}).Prestart(ctx, x); !errors.Is(err, context.Canceled) ||
			errors.As(err, &own) && own == nil {
			t.Errorf("a task that is ended: %v", err)
		}
	})
}

// TestWhatMayPassIsWaitedForAndSaidOnce, what is refused ends the task at once.
func TestWhatMayPassIsWaitedForAndSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, said := proxyTask(t)
		a := &asking{mesh: func(ctx context.Context, call int) (redact.Secret, error) {
			if call < 4 {
				return redact.Secret{}, fault.New(fault.Unavailable, "reach", "Consul", "no leader")
			}
			return given(ctx, call)
		}}
		if err := (&taskhooks.MeshToken{Tokens: a}).Prestart(t.Context(), x); err != nil || a.asked != 4 {
			t.Errorf("asked %d times, %v", a.asked, err)
		}
		if len(*said) != 1 || !strings.Contains((*said)[0].DisplayMessage, "no leader") {
			t.Errorf("said is %v", *said)
		}
		x, said = proxyTask(t)
		a = &asking{mesh: func(context.Context, int) (redact.Secret, error) {
			return redact.Secret{}, fault.New(fault.Denied, "make", "a token", "no")
		}}
		err := (&taskhooks.MeshToken{Tokens: a}).Prestart(t.Context(), x)
		if !fault.Has(err, fault.Denied) || a.asked != 1 || len(*said) != 0 {
			t.Errorf("asked %d times, said %v, %v", a.asked, *said, err)
		}
	})
}

// TestATaskFindsTheTokenOfItsIdentity in a file and in its environment, the same over starts, and gives it back at its
// end; where that fails the file stays for another try.
func TestATaskFindsTheTokenOfItsIdentity(t *testing.T) {
	x, _ := proxyTask(t)
	x.Task = &job.Task{Name: "app", Identities: []*job.WorkloadIdentity{{Name: "consul_default"}}}
	a := &asking{mesh: given, away: fault.New(fault.Unavailable, "reach", "Consul", "away")}
	h := &taskhooks.ConsulToken{Tokens: a}
	for range 2 {
		x.Out.Env = map[string]string{}
		if err := h.Prestart(t.Context(), x); err != nil || a.asked != 1 ||
			x.Out.Env["CONSUL_TOKEN"] != "canary" || x.Out.Env["CONSUL_HTTP_TOKEN"] != "canary" {
			t.Fatalf("asked %d times, finds %v, %v", a.asked, x.Out.Env, err)
		}
	}
	path := filepath.Join(x.TaskDir, "secrets", taskhooks.ConsulTokenFile)
	if text, err := os.ReadFile(path); err != nil || string(text) != "canary" {
		t.Errorf("%q, %v", text, err)
	}
	if err := h.Stop(t.Context(), x); !fault.Has(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	a.away = nil
	for range 2 {
		if err := h.Stop(t.Context(), x); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); err == nil || len(a.returned) != 2 || a.returned[1] != "canary" {
		t.Errorf("it is there still, %v; returned are %q", err, a.returned)
	}
	plain := &hook.Task{Task: &job.Task{Name: "plain"}, Out: hook.Output{Env: map[string]string{}}}
	if err := h.Prestart(t.Context(), plain); err != nil || len(plain.Out.Env) != 0 || a.asked != 1 {
		t.Errorf("a task without an identity: %v, %v", plain.Out.Env, err)
	}
}

// TestWhatWasGivenForAnIdentityIsReturned, and what the servers have made is left to them.
func TestWhatWasGivenForAnIdentityIsReturned(t *testing.T) {
	for _, byIdentity := range []bool{true, false} {
		x, _ := proxyTask(t)
		a := &asking{mesh: given, byIdentity: byIdentity}
		h := &taskhooks.MeshToken{Tokens: a}
		if err := errors.Join(h.Prestart(t.Context(), x), h.Stop(t.Context(), x)); err != nil {
			t.Error(err)
		}
		if got := len(a.returned) == 1; got != byIdentity {
			t.Errorf("given for an identity: %v, returned: %q", byIdentity, a.returned)
		}
	}
}
