package rawexec

import (
	"context"
	"errors"
	"slices"
	"testing"

	"berth/internal/port/driver"
)

// asked is a launcher that keeps what it is asked to launch.
type asked struct {
	driver.Launcher
	spec *driver.LaunchSpec
}

var errNotLaunched = errors.New("nothing is launched here")

func (a *asked) Launch(_ context.Context, spec *driver.LaunchSpec) (driver.Process, error) {
	a.spec = spec
	return nil, errNotLaunched
}

// TestATaskIsStartedWithWhatItMayHaveOfTheAgentsEnvironment: no secret of the agent's, whoever runs the task; what
// belongs to the agent's user, when the task runs as that one; and what the job says.
func TestATaskIsStartedWithWhatItMayHaveOfTheAgentsEnvironment(t *testing.T) {
	t.Setenv("VAULT_TOKEN", "secret")
	t.Setenv("BERTH_TOKEN", "secret")
	t.Setenv("HOME", "/home/of-the-agent")
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/of-the-agent")
	t.Setenv("LANG", "C.UTF-8")
	ofTheAgent := []string{"HOME=/home/of-the-agent", "XDG_RUNTIME_DIR=/run/user/of-the-agent"}
	for user, ofUser := range map[string]bool{"": true, "nobody": false} {
		var l asked
		_, err := New(Config{Enabled: true}, &l).Start(t.Context(), &driver.TaskConfig{
			Task:   "t",
			User:   user,
			Env:    map[string]string{"OWN": "1"},
			Config: map[string]any{"command": "true"},
		})
		if !errors.Is(err, errNotLaunched) || l.spec == nil {
			t.Fatalf("as user %q: %v", user, err)
		}
		if l.spec.User != user {
			t.Errorf("a task of user %q is launched as %q", user, l.spec.User)
		}
		for _, kv := range []string{"OWN=1", "LANG=C.UTF-8"} {
			if !slices.Contains(l.spec.Env, kv) {
				t.Errorf("as user %q: %s is missing", user, kv)
			}
		}
		for _, kv := range []string{"VAULT_TOKEN=secret", "BERTH_TOKEN=secret"} {
			if slices.Contains(l.spec.Env, kv) {
				t.Errorf("as user %q: the task gets %s", user, kv)
			}
		}
		for _, kv := range ofTheAgent {
			if slices.Contains(l.spec.Env, kv) != ofUser {
				t.Errorf("as user %q: that the task gets %s is not %v", user, kv, ofUser)
			}
		}
	}
}
