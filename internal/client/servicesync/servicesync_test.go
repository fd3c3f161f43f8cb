package servicesync_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/servicesync"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	model "berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/consul"
	"berth/internal/testkit/consulagent"
)

// rig is a node whose allocs are what the test says, and a real agent of Consul with a proxy in front that counts.
type rig struct {
	t       testing.TB
	audit   time.Duration // 0: that of the product
	real    *consulagent.Agent
	keeper  *servicesync.Keeper
	stop    func()
	changed lifecycle.Signal

	mu     sync.Mutex
	served map[ids.Alloc]*servicesync.Served
	said   []string
	sent   []sent
}

// sent is a registration as our agent's log has it.
type sent struct{ id, reason, tags string }

// Enabled implements slog.Handler.
func (r *rig) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (r *rig) Handle(_ context.Context, line slog.Record) error {
	if line.Message != "a service is registered in Consul" {
		return nil
	}
	said := map[string]string{}
	line.Attrs(func(a slog.Attr) bool {
		said[a.Key] = fmt.Sprint(a.Value.Any())
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, sent{said["service"], said["reason"], said["tags"]})
	return nil
}

// WithAttrs implements slog.Handler.
func (r *rig) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup implements slog.Handler.
func (r *rig) WithGroup(string) slog.Handler { return r }

func newRig(t testing.TB) *rig {
	r := &rig{t: t, real: consulagent.Start(t), served: map[ids.Alloc]*servicesync.Served{}}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// start begins an agent of ours.
func (r *rig) start() {
	agent, err := consul.New(consul.Config{Address: r.real.Proxy.URL})
	if err != nil {
		r.t.Fatal(err)
	}
	r.keeper = servicesync.New(servicesync.Config{
		Agent:  agent,
		Allocs: r,
		Audit:  r.audit,
		Node:   func() *node.Node { return &node.Node{ID: "n", Resources: node.Resources{IP: "10.0.0.9"}} },
		Log:    slog.New(r),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done, keeper := make(chan struct{}), r.keeper
	go func() {
		defer close(done)
		if err := keeper.Run(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	r.stop = func() { cancel(); <-done }
}

// restart ends our agent, and begins another that knows nothing.
func (r *rig) restart() { r.stop(); r.start() }

// Served implements servicesync.Allocs.
func (r *rig) Served() (out []servicesync.Served) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.served {
		out = append(out, *s)
	}
	return out
}

// Changed implements servicesync.Allocs.
func (r *rig) Changed() <-chan struct{} { return r.changed.C() }

// Say implements servicesync.Allocs.
func (r *rig) Say(_ ids.Alloc, _, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, text)
}

func (r *rig) hears(text string) {
	r.t.Helper()
	r.real.Until("a task hears "+text, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.said, func(s string) bool { return strings.Contains(s, text) })
	})
}

// web is a service of Consul of the name of its alloc.
func web(tags ...string) *job.Service {
	return &job.Service{
		Provider:          job.ProviderConsul,
		Tags:              tags,
		AddressMode:       job.AddressAuto,
		EnableTagOverride: true,
		Checks: []*job.ServiceCheck{{
			Name:     "script",
			Type:     job.CheckScript,
			Command:  "/x",
			Interval: time.Hour,
			Timeout:  time.Second,
		}},
	}
}

// run has an alloc run with a service, or what it has changed in place.
func (r *rig) run(id ids.Alloc, s *job.Service) {
	s.Name = string(id)
	r.change(id, func(was *servicesync.Served) {
		*was = servicesync.Served{
			Bundle: alloc.Bundle{
				Alloc: &alloc.Alloc{ID: id, Job: "j", TaskGroup: "g", Node: "n"},
				Job: &job.Job{ID: "j", TaskGroups: []*job.TaskGroup{{
					Name:  "g",
					Tasks: []*job.Task{{Name: "t", Services: []*job.Service{s}}},
				}}},
			},
			Report: &alloc.Alloc{
				ID:           id,
				ClientStatus: alloc.ClientRunning,
				TaskStates:   map[string]*alloc.TaskState{"t": {State: alloc.TaskRunning, StartedAt: time.Now()}},
			},
		}
	})
}

func (r *rig) change(id ids.Alloc, change func(*servicesync.Served)) {
	r.mu.Lock()
	next := servicesync.Served{}
	if was := r.served[id]; was != nil {
		next = *was
	}
	change(&next)
	r.served[id] = &next
	r.mu.Unlock()
	r.changed.Notify()
}

func (r *rig) end(id ids.Alloc) {
	r.mu.Lock()
	delete(r.served, id)
	r.mu.Unlock()
	r.changed.Notify()
}

func (r *rig) gone(name string) {
	r.t.Helper()
	r.real.Until(name+" is not found", func() bool { return len(r.real.Catalog(name)) == 0 })
}

func (r *rig) registrations(of string) int { return r.real.Proxy.Registrations("_berth-n-" + of + "-") }

// check is the script of an alloc's service, as those who run it have it.
func (r *rig) check(id ids.Alloc) *service.Check {
	r.t.Helper()
	for _, s := range r.Served() {
		if s.Bundle.Alloc.ID == id {
			all, err := service.Checks(service.Source{
				Alloc: s.Bundle.Alloc,
				Job:   s.Bundle.Job,
				Node:  &node.Node{ID: "n", Resources: node.Resources{IP: "10.0.0.9"}},
			})
			if err != nil {
				r.t.Fatal(err)
			}
			return all[0]
		}
	}
	r.t.Fatal("there is no such alloc")
	return nil
}

func (r *rig) passes(id ids.Alloc) {
	r.t.Helper()
	err := r.keeper.Report(context.Background(), r.check(id), service.State{Status: service.Success, Output: "fine"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.real.Until("its check passes", func() bool { return r.real.Status(string(id))["script"] == model.Passing })
}

// TestATagOfOthersOutlivesAnUnrelatedJob: somebody's tag, which the agent has taken over, is there after another job
// has come to the node, and the service was not registered for it. Orchestrators that send what their jobs say lose
// it.
func TestATagOfOthersOutlivesAnUnrelatedJob(t *testing.T) {
	r := newRig(t)
	r.run("a", web("blue"))
	r.real.Edit(r.real.Tags("a", "blue"), "green")
	r.real.Until("the agent has taken it over", func() bool { return r.registrations("a") == 2 })
	r.run("b", web("x"))
	r.real.Tags("b", "x")
	r.real.Tags("a", "green")
	if n := r.registrations("a"); n != 2 {
		t.Errorf("it was registered %d times: at its start, and for somebody's edit it should be", n)
	}
}

// TestATagOfOthersOutlivesACheckThatTurns: a check turns long before Consul itself would have taken the tag over, with
// which Consul pushes the service as its agent has it.
func TestATagOfOthersOutlivesACheckThatTurns(t *testing.T) {
	r := newRig(t)
	r.run("a", web("blue"))
	shown := r.real.Tags("a", "blue")
	for i, tag := range []string{"green", "lime"} {
		r.real.Settled()
		r.real.Edit(shown, tag)
		r.real.Until("the agent has heard of it", func() bool { return r.registrations("a") == i+2 })
	}
	r.passes("a")
	r.real.Tags("a", "lime")
}

// TestWhatOurAgentRegisteredItKnowsAgain: after a restart, and after a crash, nothing is registered anew and no check
// is reset; what ended meanwhile is taken away, and services of others stay.
func TestWhatOurAgentRegisteredItKnowsAgain(t *testing.T) {
	r := newRig(t)
	r.real.Do("PUT", "/v1/agent/service/register", map[string]any{"ID": "_berth-other-x", "Name": "stranger"}, nil)
	r.run("a", web("blue"))
	r.run("b", web("x"))
	r.real.Edit(r.real.Tags("a", "blue"), "green")
	r.real.Until("the agent has heard of it", func() bool { return r.registrations("a") == 2 })
	r.passes("a")
	r.real.Tags("b", "x")
	r.stop()
	r.end("b")
	r.start()
	r.gone("b")
	r.run("c", web("y"))
	r.real.Tags("c", "y")
	r.real.Tags("a", "green")
	if n := r.registrations("a"); n != 2 {
		t.Errorf("it was registered %d times", n)
	}
	if got := r.real.Status("a")["script"]; got != model.Passing {
		t.Errorf("its check is %s", got)
	}
	if len(r.real.Catalog("stranger")) != 1 {
		t.Error("a stranger is gone")
	}
}

// TestAnAgentThatHasYetToFindItsTasksLeavesThemRegistered: before a task was seen to run, nothing is taken away.
func TestAnAgentThatHasYetToFindItsTasksLeavesThemRegistered(t *testing.T) {
	r := newRig(t)
	r.run("a", web("blue"))
	r.real.Tags("a", "blue")
	r.stop()
	r.change("a", func(s *servicesync.Served) {
		s.Report = &alloc.Alloc{
			ClientStatus: alloc.ClientPending,
			TaskStates:   map[string]*alloc.TaskState{"t": {State: alloc.TaskPending}},
		}
	})
	r.start()
	r.run("b", web("x"))
	r.real.Tags("b", "x")
	r.real.Tags("a", "blue")
	r.run("a", web("blue"))
	r.run("c", web("y"))
	r.real.Tags("c", "y")
	if n := r.registrations("a"); n != 1 {
		t.Errorf("it was registered %d times", n)
	}
}

// TestConsulThatIsAwayHoldsUpNothing: the service is unregistered with a reason, and is registered as soon as Consul
// answers.
func TestConsulThatIsAwayHoldsUpNothing(t *testing.T) {
	r, begun := newRig(t), time.Now()
	r.real.Proxy.Away(true)
	r.run("a", web("blue"))
	r.hears("Service a is not registered in Consul: ")
	if c := r.keeper.Count(); c.All != 1 || c.Unregistered != 1 {
		t.Errorf("unregistered: %+v", c)
	}
	if s := r.keeper.Of("a"); len(s) != 1 || s[0].Registered || !strings.Contains(s[0].Why, "answers 503") ||
		s[0].Since.Before(begun) {
		t.Errorf("it stands as %+v", s)
	}
	r.real.Proxy.Away(false)
	r.hears("Service a is registered in Consul")
	r.real.Tags("a", "blue")
	if c := r.keeper.Count(); c.All != 1 || c.Unregistered != 0 {
		t.Errorf("unregistered: %+v", c)
	}
	if s := r.keeper.Of("a"); len(s) != 1 || !s[0].Registered || s[0].Why != "" || s[0].Task != "t" ||
		!model.SameTags(s[0].Service.Tags, []string{"blue"}) {
		t.Errorf("it stands as %+v", s)
	}
	if s := r.keeper.Of("b"); len(s) != 0 {
		t.Errorf("of another alloc it is said that %+v", s)
	}
	if n := r.registrations("a"); n != 1 {
		t.Errorf("it was registered %d times", n)
	}
}

// TestAServiceIsGoneBeforeItsTaskEnds: whoever ends the task waits until it is, and it comes back with the next start,
// with the tags that others wrote.
func TestAServiceIsGoneBeforeItsTaskEnds(t *testing.T) {
	r := newRig(t)
	r.run("a", web("blue"))
	r.real.Edit(r.real.Tags("a", "blue"), "green")
	r.real.Until("the agent has heard of it", func() bool { return r.registrations("a") == 2 })
	r.keeper.Leave(context.Background(), "a", "t")
	if seen := r.real.Proxy.Seen(); !strings.HasPrefix(seen[len(seen)-1], "service/deregister/_berth-n-a-") {
		t.Fatalf("the last that was asked is %s", seen[len(seen)-1])
	}
	r.gone("a")
	r.run("a", web("blue"))
	r.real.Tags("a", "green")
	r.change("a", func(s *servicesync.Served) { s.Stopping = true })
	r.gone("a")
	r.end("a")
	r.real.Proxy.Away(true)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.keeper.Leave(ctx, "a", "t") // it does not wait for what is not there
}

// TestEachChangeIsSentForItsServiceAlone: an edit of one job's tags, port or checks touches no other service.
func TestEachChangeIsSentForItsServiceAlone(t *testing.T) {
	r := newRig(t)
	r.run("a", web("blue"))
	r.run("b", web("x"))
	r.real.Tags("a", "blue")
	r.real.Tags("b", "x")
	r.passes("b")
	r.run("a", web("red"))
	r.real.Tags("a", "red")
	more := web("red")
	more.Checks = append(more.Checks, &job.ServiceCheck{
		Name:          "tcp",
		Type:          job.CheckScript,
		Command:       "/y",
		InitialStatus: "warning",
		Interval:      time.Hour,
		Timeout:       time.Second,
	})
	r.run("a", more)
	r.real.Until("it has two checks", func() bool { return len(r.real.Status("a")) == 2 })
	r.run("a", web("red"))
	r.real.Until("it has one again", func() bool { return len(r.real.Status("a")) == 1 })
	if a, b := r.registrations("a"), r.registrations("b"); a != 2 || b != 1 {
		t.Errorf("registered %d and %d times: %s", a, b, fmt.Sprint(r.real.Proxy.Seen()))
	}
	if got := r.real.Status("b")["script"]; got != model.Passing {
		t.Errorf("the check of the other is %s", got)
	}
}
