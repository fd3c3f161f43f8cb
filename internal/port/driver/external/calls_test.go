package external_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
	"berth/internal/port/driver/external"
	"berth/pluginproto/basepb"
	"berth/pluginproto/driverpb"
)

// use is a plugin with a task, and the way in which a test has one call of the protocol made.
type use struct {
	*node
	d    *external.Driver
	dir  string
	task driver.Task
}

// call is how one call of the protocol comes about.
type call struct {
	// make has it made with a task that runs; nil: it is made when a plugin is started, or not at all.
	make func(ctx context.Context, u *use) error
	// first: it is to be the first of its name, and no task is started before.
	first bool
	// unused says why Berth never makes it.
	unused string
	// quiet: nobody waits for its answer.
	quiet bool
}

var calls = map[string]call{
	"PluginInfo":       {},
	"ConfigSchema":     {},
	"SetConfig":        {},
	"Init":             {},
	"TaskConfigSchema": {},
	"Capabilities":     {},
	"Fingerprint":      {quiet: true},
	"TaskEvents":       {quiet: true},
	"StartTask": {first: true, make: func(ctx context.Context, u *use) error {
		u.says(driver.Healthy, "")
		_, err := u.d.Start(ctx, taskOf(u.dir, ids.Alloc(ids.New()), 1))
		return err
	}},
	"RecoverTask": {make: func(ctx context.Context, u *use) error {
		_, err := u.d.Recover(ctx, u.task.Handle())
		return err
	}},
	"WaitTask": {make: func(ctx context.Context, u *use) error {
		_, err := u.task.Wait(ctx)
		return err
	}},
	"StopTask":    {make: func(ctx context.Context, u *use) error { return u.task.Stop(ctx, "", 0) }},
	"DestroyTask": {make: func(ctx context.Context, u *use) error { return u.task.Stop(ctx, "", 0) }},
	"TaskStats": {make: func(ctx context.Context, u *use) error {
		_, err := u.task.Stats(ctx)
		return err
	}},
	"SignalTask": {make: func(ctx context.Context, u *use) error { return u.task.Signal(ctx, "SIGHUP") }},
	"ExecTaskStreaming": {make: func(ctx context.Context, u *use) error {
		_, err := u.task.Exec(ctx, driver.ExecRequest{Command: []string{"0"}})
		return err
	}},
	"CreateNetwork": {make: func(ctx context.Context, u *use) error {
		_, err := u.d.MakeNetwork(ctx, "a1", "web")
		return err
	}},
	"DestroyNetwork": {make: func(ctx context.Context, u *use) error {
		made, err := u.d.MakeNetwork(ctx, "a1", "web")
		if err != nil {
			return err
		}
		return u.d.EndNetwork(ctx, "a1", made)
	}},
	"ExecTask":    {unused: "only plugins that stream nothing are asked (TestAPluginOfOlderFields)"},
	"InspectTask": {unused: "a task's network comes with its start, and its end with WaitTask"},
	"Shutdown":    {unused: "a plugin that is not needed is ended by go-plugin's own call, and then by a signal"},
}

// Given the calls of the protocol, when this file's are compared with them, then each is there: a call that is added
// has to say what becomes of a plugin that crashes or stands still in it.
func TestEveryCallOfTheProtocolIsPlayed(t *testing.T) {
	var all []string
	for _, d := range []grpc.ServiceDesc{basepb.BasePlugin_ServiceDesc, driverpb.Driver_ServiceDesc} {
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

// used is a plugin of this mode, which has a task unless it is not to start one.
func used(t *testing.T, mode string, start bool) *use {
	t.Helper()
	u := &use{node: newNode(t, mode, func(c *external.Config) { c.Launcher = holder{} }), dir: t.TempDir()}
	must(t, os.Mkdir(filepath.Join(u.dir, "alloc"), 0o700))
	u.d = u.agent()
	if start {
		u.says(driver.Healthy, "")
		var err error
		u.task, err = u.d.Start(t.Context(), taskOf(u.dir, "a1", 1))
		must(t, err)
	}
	return u
}

// works has everything done with the plugin.
func (u *use) works() {
	u.t.Helper()
	task, err := u.d.Start(u.t.Context(), taskOf(u.dir, ids.Alloc(ids.New()), 1))
	must(u.t, err)
	stats, err := task.Stats(u.t.Context())
	if err != nil || stats.MemoryRSS != 5<<20 {
		u.t.Errorf("usage: %+v, %v", stats, err)
	}
	must(u.t, task.Signal(u.t.Context(), "SIGHUP"))
	if r, err := task.Exec(u.t.Context(), driver.ExecRequest{Command: []string{"0"}}); err != nil || r.ExitCode != 3 {
		u.t.Errorf("a command: %+v, %v", r, err)
	}
	must(u.t, task.Stop(u.t.Context(), "", 0))
	if r, err := task.Wait(u.t.Context()); err != nil || r.ExitCode != 6 || r.Unknown {
		u.t.Errorf("the end: %+v, %v", r, err)
	}
}

// Given a plugin that crashes at one call, whichever it is, when that is made, then who asked for it learns of it and
// is not left waiting, the plugin is started again and is as good as before, and so is the task that it had.
func TestAPluginThatCrashesAtAnyCallIsStartedAgain(t *testing.T) {
	for name, c := range calls {
		if c.unused != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := used(t, "crash at "+name, c.make != nil && !c.first)
			if c.make != nil {
				ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
				defer cancel()
				if name == "WaitTask" {
					ctx, cancel = context.WithTimeout(t.Context(), soonest) // there to run out: it goes on waiting
					defer cancel()
				}
				if err := c.make(ctx, u); err == nil || fault.Has(err, fault.Invalid) {
					t.Errorf("who asked learned %v", err)
				}
			}
			u.says(driver.Unhealthy, "")
			u.says(driver.Healthy, "")
			u.works()
			if u.task == nil {
				return
			}
			if err := u.task.Signal(t.Context(), "SIGHUP"); err != nil && name != "StopTask" && name != "DestroyTask" {
				t.Errorf("the task that it had: %v", err)
			}
			must(t, u.task.Stop(t.Context(), "", 0))
			if r, err := u.task.Wait(t.Context()); err != nil || r.ExitCode != 6 {
				t.Errorf("the end of the task that it had: %+v, %v", r, err)
			}
		})
	}
}

// Given a plugin that never answers one call, whichever it is, when that is made, then it ends with the patience of who
// asked for it, or with the agent where nobody did, and everything else that the plugin does goes on.
func TestAPluginThatHangsInAnyCallHoldsUpNobody(t *testing.T) {
	for name, c := range calls {
		if c.unused != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := used(t, "hang at "+name, c.make != nil && !c.first)
			begun := time.Now()
			switch {
			case c.make != nil:
				ctx, cancel := context.WithTimeout(t.Context(), soonest) // there to run out
				defer cancel()
				if err := c.make(ctx, u); err == nil || fault.Has(err, fault.Invalid) {
					t.Errorf("who asked learned %v", err)
				}
			case name == "Fingerprint": // it may have nothing to say: the manager says so after its deadline
				u.eventually("the plugin to be connected", func() bool { return !u.d.Info().Unknown })
			case c.quiet:
				u.says(driver.Healthy, "")
			default:
				u.eventually("the plugin to stand still", func() bool {
					_, err := os.Stat(filepath.Join(u.node.dir, "state", "misbehaved"))
					return err == nil
				})
				u.d = u.agent()
				u.says(driver.Healthy, "")
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			u.works()
			if u.task != nil {
				must(t, u.task.Stop(t.Context(), "", 0))
			}
		})
	}
}

// Given a plugin that cannot look for a task because its own daemon is away, when it is asked to take that up, then the
// task is neither ended nor said to be gone: it is found when the daemon is back.
func TestATaskThatCannotBeLookedForIsNotEnded(t *testing.T) {
	t.Parallel()
	u := used(t, "able", true)
	away := filepath.Join(u.node.dir, "state", "away")
	must(t, os.WriteFile(away, nil, 0o600))
	if _, err := u.d.Recover(t.Context(), u.task.Handle()); err == nil || fault.Has(err, fault.NotFound) {
		t.Errorf("while it cannot be looked for: %v", err)
	}
	must(t, u.task.Signal(t.Context(), "SIGHUP"))
	must(t, os.Remove(away))
	found, err := u.d.Recover(t.Context(), u.task.Handle())
	must(t, err)
	must(t, found.Stop(t.Context(), "", 0))
}

// Given a plugin that never answers, when it is started, and when it is asked for something by who has all the time,
// then the bound of calls ends that, and it is said.
func TestACallThatIsNotAnsweredIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("calls that are not answered are given half a minute")
	}
	t.Run("in its start", func(t *testing.T) {
		t.Parallel()
		u := used(t, "hang at PluginInfo", false)
		u.says(driver.Unhealthy, "no answer in time")
		u.says(driver.Healthy, "")
		u.works()
	})
	t.Run("for a task", func(t *testing.T) {
		t.Parallel()
		u := used(t, "hang at SignalTask", true)
		if err := u.task.Signal(t.Context(), "SIGHUP"); !fault.Has(err, fault.Unavailable) {
			t.Errorf("who asked learned %v", err)
		}
		must(t, u.task.Stop(t.Context(), "", 0))
		u.works()
	})
}

// Given a command whose output a plugin sends in one message, when it is as large as a message may be, then it arrives
// whole, and when it is larger, then that is the command's failure with the bound, and the plugin and its task go on.
func TestAMessageIsAsLargeAsOneMayBe(t *testing.T) {
	t.Parallel()
	u := used(t, "able", true)
	before := u.one()
	for size, say := range map[int]string{63 << 20: "", 65 << 20: "larger than max"} {
		var out bytes.Buffer
		r, err := u.task.Exec(t.Context(), driver.ExecRequest{Command: []string{strconv.Itoa(size)}, Stdout: &out})
		switch {
		case say == "" && (err != nil || r.ExitCode != 3 || out.Len() != size):
			t.Errorf("%d bytes: %d, %+v, %v", size, out.Len(), r, err)
		case say != "" && (err == nil || !strings.Contains(err.Error(), say)):
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	u.works()
	if now := u.one(); now != before {
		t.Errorf("it is process %d, and was %d", now, before)
	}
	must(t, u.task.Stop(t.Context(), "", 0))
}

// Given a plugin that says very much of a task, and without an end, and as much of a task that another driver has, when
// it is heard, then nobody hears of the other, what it says is cut to what a report can hold, the flood comes at a pace
// that nobody drowns in, and tasks can be started meanwhile.
func TestAFloodOfEventsOfTasksIsBounded(t *testing.T) {
	t.Parallel()
	var heard, foreign atomic.Int64
	first := make(chan external.Event, 1)
	u := &use{dir: t.TempDir()}
	u.node = newNode(t, "able", func(c *external.Config) {
		c.Launcher = holder{}
		must(t, os.MkdirAll(c.Dir, 0o700))
		must(t, os.WriteFile(filepath.Join(c.Dir, "tells"), nil, 0o600))
		c.Events = func(e external.Event) {
			if e.Alloc != "a1" {
				foreign.Add(1)
			}
			if heard.Add(1) == 1 {
				first <- e
			}
		}
	})
	must(t, os.Mkdir(filepath.Join(u.dir, "alloc"), 0o700))
	u.d = u.agent()
	u.says(driver.Healthy, "")
	_, err := u.d.Start(t.Context(), taskOf(u.dir, "a1", 1))
	must(t, err)
	select {
	case e := <-first:
		if e.Alloc != "a1" || e.Task != "t" || len(e.Message) > 2<<10 || !strings.Contains(e.Message, "left out") ||
			!utf8.ValidString(e.Message) || len(e.Annotations) != 64 {
			t.Errorf("of %q, %q: %d bytes, %d annotations: %.80q", e.Alloc, e.Task, len(e.Message), len(e.Annotations),
				e.Message)
		}
		for k, v := range e.Annotations {
			if len(k) > 2<<10 || len(v) > 2<<10 {
				t.Errorf("an annotation of %d and %d bytes", len(k), len(v))
			}
		}
	case <-time.After(time.Minute):
		t.Fatal("no event came")
	}
	u.eventually("the first hundred", func() bool { return heard.Load() >= 100 })
	from, begun := heard.Load(), time.Now()
	u.works()
	time.Sleep(soonest)
	if n, most := heard.Load()-from, int64(time.Since(begun)/(100*time.Millisecond))+10; n < 1 || n > most {
		t.Errorf("%d events in %s, at most %d", n, time.Since(begun), most)
	}
	if n := foreign.Load(); n > 0 {
		t.Errorf("%d events of a task that it does not have", n)
	}
}
