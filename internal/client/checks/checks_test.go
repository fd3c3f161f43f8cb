package checks_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/checks"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// rig is a node with allocs, whose services answer as the test says.
type rig struct {
	t       *testing.T
	keeper  *checks.Keeper
	changed lifecycle.Signal

	mu       sync.Mutex
	allocs   map[ids.Alloc]checks.Served
	down     map[string]string // by alloc and check: what it answers instead of OK
	asked    map[string]int    // by alloc and check
	heard    []string
	restarts []string
}

func (r *rig) Served() (out []checks.Served) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.allocs {
		out = append(out, a)
	}
	return out
}
func (r *rig) Changed() <-chan struct{} { return r.changed.C() }
func (r *rig) Checked(id ids.Alloc, found alloc.Checks) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, fmt.Sprintf("%s: %s", id, found.Failing))
}
func (r *rig) RestartUnhealthy(id ids.Alloc, task, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restarts = append(r.restarts, fmt.Sprintf("%s %q: %s", id, task, reason))
}

func (r *rig) ask(_ context.Context, c *service.Check) service.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := string(c.Service.Alloc) + " " + c.Name
	r.asked[key]++
	if out := r.down[key]; out != "" {
		return service.Answer{Output: out, At: time.Now()}
	}
	return service.Answer{Passed: true, Output: "OK", At: time.Now()}
}

// set changes what the node has.
func (r *rig) set(fn func()) {
	r.mu.Lock()
	fn()
	r.mu.Unlock()
	r.changed.Notify()
	time.Sleep(200 * time.Millisecond) // it is collected with other changes
	synctest.Wait()
}

// runs is an alloc whose task has just started; its service has a check that counts and one that is only shown.
func (r *rig) runs(id ids.Alloc) {
	every := func(name, onUpdate string) *job.ServiceCheck {
		return &job.ServiceCheck{
			Name:     name,
			Type:     job.CheckTCP,
			Interval: 10 * time.Second,
			Timeout:  time.Second,
			OnUpdate: onUpdate,
		}
	}
	must := every("must", "")
	must.CheckRestart = &job.CheckRestart{Limit: 3, Grace: 5 * time.Second}
	g := &job.TaskGroup{Name: "g", Tasks: []*job.Task{{Name: "t", Services: []*job.Service{{
		Name:      "web",
		Provider:  job.ProviderServers,
		PortLabel: "http",
		Checks:    []*job.ServiceCheck{must, every("may", job.OnUpdateIgnore)},
	}}}}}
	r.allocs[id] = checks.Served{
		Bundle: alloc.Bundle{
			Alloc: &alloc.Alloc{
				ID:        id,
				TaskGroup: "g",
				Resources: alloc.Resources{Ports: []alloc.PortMapping{{Label: "http", Value: 1, HostIP: "::1"}}},
			},
			Job: &job.Job{ID: "j", TaskGroups: []*job.TaskGroup{g}},
		},
		Tasks: map[string]*alloc.TaskState{"t": {State: alloc.TaskRunning, StartedAt: time.Now()}},
	}
}

func (r *rig) state(id ids.Alloc, state string) {
	s := r.allocs[id]
	s.Tasks = map[string]*alloc.TaskState{"t": {State: state, StartedAt: time.Now()}}
	r.allocs[id] = s
}

// said returns what the servers would hear, and forgets it.
func (r *rig) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := strings.Join(r.heard, "\n")
	r.heard = nil
	return out
}

func (r *rig) restarted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.restarts)
}

func (r *rig) count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[key]
}

func inBubble(t *testing.T, do func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			t:      t,
			allocs: map[ids.Alloc]checks.Served{},
			down:   map[string]string{},
			asked:  map[string]int{},
		}
		r.keeper = checks.New(checks.Config{
			Allocs: r,
			Node:   func() *node.Node { return &node.Node{ID: "n"} },
			Ask:    r.ask,
			Log:    slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.keeper.Run(ctx) }()
		synctest.Wait()
		do(r)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestChecksAreAskedWhileTheirTaskRuns: soon after its start, then once in each interval, not while it does not run,
// and never after the alloc's end. What was found before a restart is not said of the run after it.
func TestChecksAreAskedWhileTheirTaskRuns(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.set(func() { r.runs("a") })
		if n := r.count("a must"); n != 0 {
			t.Errorf("asked %d times at the start itself", n)
		}
		if all := r.keeper.Of("a"); len(all) != 2 || all[0].Status != service.Pending ||
			all[0].Mode != service.Healthiness || all[1].Mode != service.Readiness {
			t.Errorf("before the first answer: %+v", all)
		}
		time.Sleep(time.Second)
		if n := r.count("a must"); n != 1 {
			t.Errorf("after a second it was asked %d times", n)
		}
		time.Sleep(30 * time.Second)
		if n := r.count("a must"); n != 4 {
			t.Errorf("after three intervals more it was asked %d times", n)
		}
		if all := r.keeper.Of("a"); all[0].Status != service.Success || all[0].Output != "OK" {
			t.Errorf("it answers, and is said to be %+v", all[0])
		}
		r.set(func() { r.state("a", alloc.TaskPending) })
		if all := r.keeper.Of("a"); all[0].Status != service.Pending {
			t.Errorf("its task does not run, and it is said to be %+v", all[0])
		}
		before := r.count("a must")
		time.Sleep(time.Minute)
		if n := r.count("a must"); n != before {
			t.Errorf("its task does not run, and it was asked %d times", n-before)
		}
		r.set(func() { r.state("a", alloc.TaskRunning) })
		time.Sleep(time.Second)
		if n := r.count("a must"); n != before+1 {
			t.Errorf("its task runs again, and it was asked %d times", n-before)
		}
		r.set(func() { delete(r.allocs, "a") })
		before = r.count("a must")
		time.Sleep(time.Minute)
		if n := r.count("a must"); n != before || r.keeper.Of("a") != nil {
			t.Errorf("it has ended, and was asked %d times: %+v", n-before, r.keeper.Of("a"))
		}
	})
}

// TestTheServersHearWhenAChecksStatusChanges: not of each answer, and of no check that decides nothing.
func TestTheServersHearWhenAChecksStatusChanges(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.down["a must"], r.down["a may"] = "refused", "never"
		r.set(func() { r.runs("a") })
		time.Sleep(5 * time.Second)
		if got := r.said(); got != `a: check "must" of service "web": refused` {
			t.Errorf("first they hear %q", got)
		}
		r.set(func() { r.down["a must"] = "refused otherwise" })
		time.Sleep(10 * time.Second)
		if got := r.said(); got != "" {
			t.Errorf("of another answer they hear %q", got)
		}
		r.set(func() { delete(r.down, "a must") })
		time.Sleep(10 * time.Second)
		if got := r.said(); got != "a: " {
			t.Errorf("when it passes they hear %q", got)
		}
		time.Sleep(time.Minute)
		if got := r.said(); got != "" {
			t.Errorf("nothing changed, and they hear %q", got)
		}
		r.set(func() { r.down["a must"] = "gone" })
		time.Sleep(10 * time.Second)
		if got := r.said(); got != `a: check "must" of service "web": gone` {
			t.Errorf("when it fails they hear %q", got)
		}
	})
}

// TestATaskIsRestartedWhoseCheckFails: at the third failure in a row after the grace, again after three more, and not
// for what another alloc's check, or a failure within the grace, says.
func TestATaskIsRestartedWhoseCheckFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.down["a must"] = "refused"
		r.set(func() {
			r.runs("a")
			r.runs("b")
		})
		time.Sleep(25 * time.Second) // the failure within the grace, and two more
		if got := r.restarted(); len(got) > 0 {
			t.Errorf("too soon: %q", got)
		}
		time.Sleep(10 * time.Second)
		want := `a "t": healthcheck: check "must" of service "web" failed 4 times in a row: refused`
		if got := r.restarted(); len(got) != 1 || got[0] != want {
			t.Errorf("%q", got)
		}
		time.Sleep(20 * time.Second)
		if got := r.restarted(); len(got) != 1 {
			t.Errorf("it was restarted, and two failures more are not three: %q", got)
		}
		r.set(func() { r.state("a", alloc.TaskRunning) })
		time.Sleep(25 * time.Second)
		if got := r.restarted(); len(got) != 1 {
			t.Errorf("the grace begins anew with each start: %q", got)
		}
		time.Sleep(10 * time.Second)
		if got := r.restarted(); len(got) != 2 {
			t.Errorf("it fails on, and %q", got)
		}
	})
}

// TestAServiceIsAskedOnItsAllocsOwnNetwork: as soon as that is there, at the address that the node itself knows.
func TestAServiceIsAskedOnItsAllocsOwnNetwork(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.set(func() {
			r.runs("a")
			r.allocs["a"].Bundle.Job.TaskGroups[0].Tasks[0].Services[0].AddressMode = job.AddressAlloc
		})
		time.Sleep(time.Minute)
		if n := r.count("a must"); n > 0 || len(r.keeper.Of("a")) > 0 {
			t.Errorf("it has no network yet, and was asked %d times", n)
		}
		r.set(func() {
			s := r.allocs["a"]
			s.Network = &alloc.NetworkStatus{Address: "172.26.64.9"}
			r.allocs["a"] = s
		})
		time.Sleep(time.Second)
		all := r.keeper.Of("a")
		if len(all) != 2 || all[0].Status != service.Success || all[0].Check.Address != "172.26.64.9:1" {
			t.Errorf("it has a network, and is said to be %+v", all)
		}
	})
}

// TestAJobThatChangesKeepsWhatIsKnown: of checks that stay, what was found stays; those that are gone are asked no
// more.
func TestAJobThatChangesKeepsWhatIsKnown(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.set(func() { r.runs("a") })
		time.Sleep(time.Second)
		r.set(func() {
			s := r.allocs["a"]
			was := s.Bundle.Job.TaskGroups[0].Tasks[0].Services[0]
			web := *was
			web.Checks = was.Checks[:1]
			s.Bundle.Job = &job.Job{ID: "j", Version: 1, TaskGroups: []*job.TaskGroup{{
				Name:  "g",
				Tasks: []*job.Task{{Name: "t", Services: []*job.Service{&web}}},
			}}}
			r.allocs["a"] = s
		})
		if all := r.keeper.Of("a"); len(all) != 1 || all[0].Status != service.Success {
			t.Errorf("after the change: %+v", all)
		}
		before := r.count("a may")
		time.Sleep(time.Minute)
		if n := r.count("a may"); n != before {
			t.Errorf("a check that is gone was asked %d times", n-before)
		}
		if n := r.count("a must"); n < 6 {
			t.Errorf("the one that stays was asked %d times", n)
		}
	})
}
