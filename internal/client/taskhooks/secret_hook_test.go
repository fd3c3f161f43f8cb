package taskhooks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/taskhooks"
	"berth/internal/model/job"
)

// withSecret is a task whose environment names an item of a variable.
func withSecret(t *testing.T) (*templated, *servers, *[]string) {
	x, s, _, said := reader(t, &job.Template{})
	task := x.Task.Task
	task.Templates = nil
	task.Env = map[string]string{"PASSWORD": "${secret.db.password}"}
	task.Secrets = []*job.Secret{{Name: "db", Provider: "nomad", Path: "p"}}
	return x, s, said
}

// Given a task whose texts name a secret, then it waits until the variable is there and has that item, says once for
// what, and its texts get the value; a task that ends meanwhile waits no more; and what it may not read fails it.
func TestATaskWaitsForItsSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, s, said := withSecret(t)
		h, done := &taskhooks.Secrets{Sources: s}, make(chan error, 1)
		go func() { done <- h.Prestart(t.Context(), x.Task) }()
		for _, c := range []struct{ text, want string }{
			{"", `waits for variable "p", which is not there`},
			{`{"user":"u"}`, `waits for the item "password" of variable "p", which is not there`},
		} {
			s.say("p", c.text)
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := strings.Join(*said, "\n"); strings.Count(got, c.want) != 1 {
				t.Errorf("it says %q, want %q once", got, c.want)
			}
		}
		s.say("p", `{"password":"pw"}`)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := x.Task.Out.Secrets().Reveal()["secret.db.password"]; got != "pw" || len(x.Task.Out.Env) != 0 {
			t.Errorf("the secret is %q, the environment has %v", got, x.Task.Out.Env)
		}
		s.say("p", `{"password":"another"}`)
		if got := x.Task.Out.Secrets().Reveal()["secret.db.password"]; got != "pw" {
			t.Errorf("the running task has %q", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		x, s, _ := withSecret(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- (&taskhooks.Secrets{Sources: s}).Prestart(ctx, x.Task) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("one that ends: %v", err)
		}
		s.refused = fault.New(fault.Denied, "", "", "not yours")
		if err := (&taskhooks.Secrets{Sources: s}).Prestart(t.Context(), x.Task); !fault.Has(err, fault.Denied) {
			t.Errorf("what it may not read: %v", err)
		}
	})
}

// Given a task that was found running, then nothing of its secrets is waited for, but where a template may be rendered
// again that names one.
func TestARunningTaskWaitsForSecretsOfTemplatesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, s, _ := withSecret(t)
		x.Task.Restored = true
		h := &taskhooks.Secrets{Sources: s}
		if err := h.Prestart(t.Context(), x.Task); err != nil || len(x.Task.Out.Secrets()) != 0 {
			t.Errorf("%v, %v", x.Task.Out.Secrets(), err)
		}
		s.say("p", `{"password":"pw"}`)
		if got := x.Task.Out.Secrets().Reveal()["secret.db.password"]; got != "pw" {
			t.Errorf("a check of it finds %q", got)
		}
		s.say("p", "")
		x.Task.Task.Templates = []*job.Template{{EmbeddedTmpl: "${secret.db.password}", DestPath: "local/f"}}
		done := make(chan error, 1)
		go func() { done <- h.Prestart(t.Context(), x.Task) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("the template would be rendered without: %v", err)
		default:
		}
		s.say("p", `{"password":"pw"}`)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
