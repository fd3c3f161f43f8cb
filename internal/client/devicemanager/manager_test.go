package devicemanager

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	model "berth/internal/model/device"
	"berth/internal/port/device"
	"berth/internal/port/driver"
)

// fake is a plugin whose states the test says.
type fake struct {
	name   string
	states chan device.State
	answer *device.Provided
	err    error
}

func (f *fake) Name() string { return f.name }
func (f *fake) Follow(ctx context.Context, say func(device.State)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-f.states:
			say(s)
		}
	}
}
func (f *fake) Reserve(context.Context, []string) (*device.Provided, error) {
	return f.answer, f.err
}
func (f *fake) Stats() []model.Stats {
	return []model.Stats{{Kind: model.Kind{Vendor: "acme", Type: "gpu", Name: f.name}}}
}

func newFake(name string) *fake { return &fake{name: name, states: make(chan device.State)} }

// gpu is a kind with instances; those that end in ! are ill.
func gpu(name string, instances ...string) model.Group {
	g := model.Group{Vendor: "acme", Type: "gpu", Name: name}
	for _, id := range instances {
		id, ill := strings.CutSuffix(id, "!")
		g.Instances = append(g.Instances, model.Instance{ID: id, Healthy: !ill})
	}
	return g
}

// show writes groups as "small:a,b!".
func show(groups []model.Group) string {
	var out []string
	for _, g := range groups {
		var all []string
		for _, i := range g.Instances {
			if !i.Healthy {
				i.ID += "!"
			}
			all = append(all, i.ID)
		}
		out = append(out, g.Name+":"+strings.Join(all, ","))
	}
	return strings.Join(out, " ")
}

// managed runs a manager of plugins, and returns what is said of the health of instances so far.
func managed(t *testing.T, plugins ...device.Plugin) (m *Manager, said func() string) {
	t.Helper()
	var words []string
	m = New(Config{Plugins: plugins, Log: slog.New(slog.DiscardHandler),
		Ill: func(k model.Kind, id, reason string) { words = append(words, k.Name+"["+id+"] "+reason) }})
	ctx, cancel := context.WithCancel(context.Background())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("devices", func() error { return m.Run(gctx) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return m, func() string {
		synctest.Wait()
		slices.Sort(words)
		out := strings.Join(words, "; ")
		words = nil
		return out
	}
}

// Given plugins that find devices, lose some, die and come back, when the node is described, then it has what they
// find, nothing of a plugin that is not there is healthy, and each change of an instance is said once.
func TestTheNodeHasWhatItsPluginsFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake("a"), newFake("b")
		m, said := managed(t, a)
		select {
		case <-m.Looked():
			t.Error("a plugin that has not said anything has been looked at")
		default:
		}
		steps := []struct {
			p    *fake
			s    device.State
			has  string
			says string
		}{
			{a, device.State{Groups: []model.Group{gpu("small", "x", "y!")}}, "small:x,y!",
				"small[y] its plugin says that it is unhealthy"},
			{b, device.State{Groups: []model.Group{gpu("large", "z"), gpu("small", "w")}}, "large:z small:x,y!", ""},
			{a, device.State{Groups: []model.Group{gpu("small", "x!", "y")}}, "large:z small:x!,y",
				"small[x] its plugin says that it is unhealthy; small[y] "},
			{a, device.State{Reason: "it died", Groups: []model.Group{gpu("small", "x", "y")}}, "large:z small:x!,y!",
				"small[x] it died; small[y] it died"},
			{a, device.State{Groups: []model.Group{gpu("small", "y")}}, "large:z small:y",
				"small[x] its plugin does not find it any more; small[y] "},
		}
		for i, step := range steps {
			if step.p == b && i == 1 {
				m.Add(b)
			}
			changed := m.Changed()
			step.p.states <- step.s
			if got := said(); got != step.says {
				t.Errorf("step %d says %q, not %q", i, got, step.says)
			}
			if got := show(m.Groups()); got != step.has {
				t.Errorf("step %d has %q, not %q", i, got, step.has)
			}
			select {
			case <-changed:
			default:
				t.Errorf("step %d changed nothing", i)
			}
		}
		changed := m.Changed()
		a.states <- device.State{Groups: []model.Group{gpu("small", "y")}}
		if got := said(); got != "" {
			t.Errorf("the same again says %q", got)
		}
		select {
		case <-changed:
			t.Error("the same again is a change")
		default:
		}
		<-m.Looked()
		if s := m.Stats(); len(s) != 2 || s[0].Name != "a" {
			t.Errorf("figures: %v", s)
		}
	})
}

// Given a task that was given devices, when they are made ready, then it gets what all their plugins give, waits for
// those that are not there or not well, and does not get what contradicts itself.
func TestWhatATaskWasGivenIsMadeReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake("a"), newFake("b")
		a.answer = &device.Provided{Env: map[string]string{"A": "1", "BOTH": "x"},
			Devices: []driver.Device{{HostPath: "/dev/a"}}}
		b.answer = &device.Provided{Env: map[string]string{"B": "2", "BOTH": "x"},
			Mounts: []driver.Mount{{Source: "/b"}}}
		m, said := managed(t, a, b)
		a.states <- device.State{Groups: []model.Group{gpu("small", "x", "y!")}}
		b.states <- device.State{Groups: []model.Group{gpu("large", "z")}}
		said()
		given := func(name string, all ...string) model.Given {
			return model.Given{Kind: model.Kind{Vendor: "acme", Type: "gpu", Name: name}, IDs: all}
		}
		r, err := m.Reserve(t.Context(), []model.Given{given("small", "x"), given("large", "z")})
		if err != nil || fmt.Sprint(r.Env) != "map[A:1 B:2 BOTH:x]" || len(r.Devices) != 1 || len(r.Mounts) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		for name, g := range map[string]model.Given{"unhealthy": given("small", "y"), "gone": given("small", "q"),
			"of no plugin": given("huge", "x")} {
			if _, err := m.Reserve(t.Context(), []model.Given{g}); !fault.Has(err, fault.NotReady) {
				t.Errorf("%s: %v", name, err)
			}
		}
		b.answer.Env["BOTH"] = "y"
		if _, err := m.Reserve(t.Context(), []model.Given{given("small", "x"), given("large", "z")}); !fault.Has(err,
			fault.Invalid) || !strings.Contains(err.Error(), "BOTH") {
			t.Errorf("a contradiction: %v", err)
		}
		a.answer.Env = map[string]string{"CUDA_VISIBLE_DEVICES": "0", "NVIDIA_X": "1", "ROCR_X": "2",
			"PATH_OF_GPU": "3", "PATH": "/evil", "NOMAD_TASK_DIR": "/", "CONSUL_HTTP_ADDR": "x",
			"VAULT_TOKEN": "x", "LD_PRELOAD": "x"}
		b.answer.Env = map[string]string{"PATH": "/other"}
		r, err = m.Reserve(t.Context(), []model.Given{given("small", "x"), given("large", "z")})
		if err != nil || fmt.Sprint(r.Env) != "map[CUDA_VISIBLE_DEVICES:0 NVIDIA_X:1 PATH_OF_GPU:3 ROCR_X:2]" ||
			fmt.Sprint(r.LeftOut) != "[{a [CONSUL_HTTP_ADDR LD_PRELOAD NOMAD_TASK_DIR PATH VAULT_TOKEN]} {b [PATH]}]" {
			t.Errorf("what is not a plugin's to give: %+v, %v", r, err)
		}
		if m.OfferedBy(given("large").Kind) != "b" || m.OfferedBy(given("huge").Kind) != "" {
			t.Error("the wrong plugin offers it")
		}
	})
}

// Given a plugin that says of the very devices that it found before that they are not to be had, as one does that is
// gone, then each is said to be ill, and what the node was known to have before is as it was: others read it.
func TestAPluginThatIsGoneChangesNothingThatWasSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFake("a")
		m, said := managed(t, a)
		groups := []model.Group{gpu("small", "x")}
		a.states <- device.State{Groups: groups}
		said()
		before := m.Groups()
		a.states <- device.State{Groups: groups, Reason: "it died"}
		if got := said(); got != "small[x] it died" || show(m.Groups()) != "small:x!" {
			t.Errorf("it says %q, and has %q", got, show(m.Groups()))
		}
		if show(before) != "small:x" {
			t.Errorf("what was said before is now %q", show(before))
		}
	})
}
