package external_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/port/device"
	"berth/internal/port/device/external"
	"berth/pluginproto/basepb"
	"berth/pluginproto/devicepb"
)

// calls of the protocol, and what becomes of a plugin that stands still in one.
var calls = map[string]struct {
	// start: it is made before the plugin is of use.
	start bool
	// asked: a task asks for it, and bounds it.
	asked bool
}{
	"PluginInfo":   {start: true},
	"ConfigSchema": {start: true},
	"SetConfig":    {start: true},
	"Fingerprint":  {},
	"Reserve":      {asked: true},
	"Stats":        {},
}

// Given the calls of the protocol, when this file's are compared with them, then each is there: a call that is added
// has to say what becomes of a plugin that crashes or stands still in it.
func TestEveryCallOfTheProtocolIsPlayed(t *testing.T) {
	var all []string
	for _, d := range []grpc.ServiceDesc{basepb.BasePlugin_ServiceDesc, devicepb.DevicePlugin_ServiceDesc} {
		for _, m := range d.Methods {
			all = append(all, m.MethodName)
		}
		for _, s := range d.Streams {
			all = append(all, s.StreamName)
		}
	}
	slices.Sort(all)
	if have := slices.Sorted(maps.Keys(calls)); !slices.Equal(have, all) {
		t.Errorf("played are %q\nof           %q", have, all)
	}
}

// until waits for a plugin to say that it is there, or why it is not.
func until(t *testing.T, words <-chan device.State, reason string) device.State {
	t.Helper()
	late := time.After(90 * time.Second)
	for {
		select {
		case s := <-words:
			if reason == "" && s.Reason == "" || reason != "" && strings.Contains(s.Reason, reason) {
				return s
			}
		case <-late:
			t.Fatalf("it never says %q", reason)
		}
	}
}

// gives has a task ask for a device, and compares it with what it is to get.
func gives(t *testing.T, p *external.Plugin) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := p.Reserve(ctx, []string{"b"})
	if err != nil || r.Env["IDS"] != "b" {
		t.Errorf("a task that asks gets %+v, %v", r, err)
	}
}

// beside is a plugin that is well, and was never anything else when the test ends.
func beside(t *testing.T) {
	t.Helper()
	words := make(chan device.State, 100)
	p, first := follows(t, "well", func(s device.State) { words <- s })
	<-words
	t.Cleanup(func() {
		gives(t, p)
		if first.Reason != "" || len(words) > 0 {
			t.Errorf("the plugin beside it: %+v, and %d words more", first, len(words))
		}
	})
}

// Given a plugin that crashes at one call, whichever it is, when that is made, then the reason is said, with the
// devices that it had, who asked learns of it, it is started again and gives as before; and a plugin beside it hears
// nothing of all that.
func TestAPluginThatCrashesAtAnyCallIsStartedAgain(t *testing.T) {
	for name, c := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beside(t)
			words := make(chan device.State, 1000)
			p, _ := follows(t, "crash at "+name, func(s device.State) { words <- s })
			if c.asked {
				until(t, words, "")
				if _, err := p.Reserve(t.Context(), []string{"b"}); !fault.Has(err, fault.NotReady) &&
					!fault.Has(err, fault.Unavailable) {
					t.Errorf("who asked learned %v", err)
				}
			}
			if lost := until(t, words, "is not there: "); c.asked && len(lost.Groups) != 1 {
				t.Errorf("its devices are forgotten: %+v", lost)
			}
			if back := until(t, words, ""); len(back.Groups) != 1 {
				t.Errorf("started again it has %+v", back)
			}
			gives(t, p)
		})
	}
}

// soonest is the patience of a task that asks a plugin that stands still.
const soonest = 2 * time.Second

// Given a plugin that never answers one call, whichever it is, then a task that asks is held up no longer than its
// patience lasts, the plugin that cannot be asked is said to be none, and one that can gives its devices all the same.
func TestAPluginThatHangsInAnyCallHoldsUpNobody(t *testing.T) {
	for name, c := range calls {
		if c.start {
			continue // TestAPluginThatHangsInItsStartIsStartedAgain
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beside(t)
			words := make(chan device.State, 1000)
			p := following(t, "hang at "+name, func(s device.State) { words <- s })
			switch {
			case name == "Fingerprint": // it may find nothing for long: until it has, nobody can ask it
				ctx, cancel := context.WithTimeout(t.Context(), soonest) // there to run out
				defer cancel()
				if _, err := p.Reserve(ctx, []string{"b"}); !fault.Has(err, fault.NotReady) {
					t.Errorf("who asks learns %v", err)
				}
				return
			case c.asked:
				until(t, words, "")
				ctx, cancel := context.WithTimeout(t.Context(), soonest) // there to run out
				defer cancel()
				begun := time.Now()
				if _, err := p.Reserve(ctx, []string{"b"}); err == nil || fault.Has(err, fault.Invalid) {
					t.Errorf("who asks learns %v", err)
				}
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("it took %s", took)
				}
			default:
				until(t, words, "")
			}
			gives(t, p)
		})
	}
}

// Given plugins that never answer one call of their start, each another, then the bound of calls ends that, it is said,
// and they are started again.
func TestAPluginThatHangsInItsStartIsStartedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("calls that are not answered are given half a minute")
	}
	t.Parallel()
	beside(t)
	type one struct {
		*external.Plugin
		words chan device.State
	}
	all := map[string]one{}
	for name, c := range calls {
		if c.start {
			words := make(chan device.State, 1000)
			all[name] = one{following(t, "hang at "+name, func(s device.State) { words <- s }), words}
		}
	}
	for name, p := range all {
		if s := until(t, p.words, "no answer in time"); len(s.Groups) > 0 {
			t.Errorf("%s: it has devices: %+v", name, s)
		}
		until(t, p.words, "")
		gives(t, p.Plugin)
	}
}

// Given a plugin that never answers a task that has all the time, when it is asked for a device, then the bound of
// calls ends that, and who asked learns which devices were asked for.
func TestADeviceThatIsNeverReadyIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("calls that are not answered are given half a minute")
	}
	t.Parallel()
	p, _ := follows(t, "hang at Reserve", nobody)
	_, err := p.Reserve(t.Context(), []string{"b"})
	if !fault.Has(err, fault.Unavailable) || !strings.Contains(err.Error(), `devices "b"`) ||
		!strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("who asked learned %v", err)
	}
	gives(t, p)
}
