package instance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/dynamicplugins"
	"berth/internal/model/plugin"
	"berth/internal/port/csi"
)

// TestASilentPluginIsKnownSoon: within 15 s, the loop's pause included, and it is asked several times before its health
// timeout is over.
func TestASilentPluginIsKnownSoon(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second, 10 * time.Second, 30 * time.Second, time.Hour} {
		period, limit := reprobeAfter(timeout), answerWithin(timeout)
		if period <= 0 || limit < minPatience {
			t.Errorf("health_timeout %s: asked every %s, may answer within %s", timeout, period, limit)
		}
		if known := period + limit; known > 15*time.Second {
			t.Errorf("health_timeout %s: it is known after %s", timeout, known)
		}
		if timeout > 0 && period > timeout/4 {
			t.Errorf("health_timeout %s: asked every %s", timeout, period)
		}
	}
}

// remembering is the plugins' tasks.
type remembering struct{ restarted []string }

func (*remembering) Health(dynamicplugins.Info, bool, string) {}
func (r *remembering) Timeout(_ context.Context, i dynamicplugins.Info, reason string) {
	r.restarted = append(r.restarted, string(i.Alloc)+" "+i.Task+": "+reason)
}

// TestWhenAPluginIsRestarted: after its health timeout, when more than one probe failed in it, once for both roles.
func TestWhenAPluginIsRestarted(t *testing.T) {
	for name, c := range map[string]struct {
		ago   time.Duration // since it was well
		fails []plugin.Role
		want  []string
	}{
		"one failure":                        {time.Hour, []plugin.Role{plugin.RoleNode}, nil},
		"one failure of each role":           {time.Hour, []plugin.Role{plugin.RoleNode, plugin.RoleController}, nil},
		"many failures before the time":      {0, slices.Repeat([]plugin.Role{plugin.RoleNode}, 20), nil},
		"a failure and another":              {time.Hour, slices.Repeat([]plugin.Role{plugin.RoleNode}, 2), one},
		"the restarted one is left its time": {time.Hour, slices.Repeat([]plugin.Role{plugin.RoleNode}, 20), one},
		"both roles": {time.Hour,
			slices.Repeat([]plugin.Role{plugin.RoleNode, plugin.RoleController}, 10), one},
	} {
		tasks := &remembering{}
		m := New(Config{Tasks: tasks})
		for _, role := range []plugin.Role{plugin.RoleNode, plugin.RoleController} {
			i := dynamicplugins.Info{
				Plugin:        "p",
				Role:          role,
				Alloc:         "a",
				Task:          "t",
				HealthTimeout: time.Minute,
			}
			m.insts[i.Key()] = &instance{info: i, state: plugin.Failing, since: time.Now().Add(-c.ago)}
		}
		for _, role := range c.fails {
			m.checkTimeout(t.Context(), dynamicplugins.Key{Plugin: "p", Role: role, Alloc: "a"}, "no")
		}
		if !slices.Equal(tasks.restarted, c.want) {
			t.Errorf("%s: restarted %q, want %q", name, tasks.restarted, c.want)
		}
	}
}

var one = []string{"a t: no"}

// TestAnotherTaskIsNotTakenForTheRestartedOne: its time goes on.
func TestAnotherTaskIsNotTakenForTheRestartedOne(t *testing.T) {
	tasks := &remembering{}
	m := New(Config{Tasks: tasks})
	for _, alloc := range []ids.Alloc{"a", "b"} {
		i := dynamicplugins.Info{
			Plugin:        "p",
			Role:          plugin.RoleNode,
			Alloc:         alloc,
			Task:          "t",
			HealthTimeout: time.Minute,
		}
		m.insts[i.Key()] = &instance{info: i, state: plugin.Failing, since: time.Now().Add(-time.Hour), misses: 1}
	}
	for _, alloc := range []ids.Alloc{"a", "b"} {
		m.checkTimeout(t.Context(), dynamicplugins.Key{Plugin: "p", Role: plugin.RoleNode, Alloc: alloc}, "no")
	}
	if want := []string{"a t: no", "b t: no"}; !slices.Equal(tasks.restarted, want) {
		t.Errorf("restarted %q, want %q", tasks.restarted, want)
	}
}

// The plugin's side is given the same deadline, and may find it passed before this side does.
func TestADeadlineThatThePluginFindsPassedIsSilence(t *testing.T) {
	info := dynamicplugins.Info{Plugin: "p"}
	late := &csi.Error{RPC: csi.Probe, Code: csi.Code(4)}
	if err := silence(t.Context(), late, info, time.Second); !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("its time is over: %v", err)
	}
	refused := &csi.Error{RPC: csi.Probe, Code: csi.Code(13)}
	if err := silence(t.Context(), refused, info, time.Second); strings.Contains(err.Error(), "does not answer") {
		t.Errorf("it answered: %v", err)
	}
}
