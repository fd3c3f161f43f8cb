package checks_test

import (
	"context"
	"fmt"
	"io"
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
	slow     chan struct{} // while it is open, answers wait for it; nil: they come at once
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

func (r *rig) RunScript(ctx context.Context, c *service.Check, out io.Writer) (int, error) {
	r.mu.Lock()
	says := r.down[string(c.Service.Alloc)+" "+c.Name]
	r.asked[string(c.Service.Alloc)+" "+c.Name]++
	r.mu.Unlock()
	switch says {
	case "hangs":
		if _, err := io.WriteString(out, "so far"); err != nil {
			return 0, err
		}
		<-ctx.Done()
		return 0, ctx.Err()
	case "":
		_, err := fmt.Fprintf(out, "%s %v in %s", c.Of.Command, c.Of.Args, c.Task)
		return 0, err
	}
	_, err := io.WriteString(out, says)
	return 1, err
}

func (r *rig) ask(_ context.Context, c *service.Check) service.Answer {
	r.mu.Lock()
	key := string(c.Service.Alloc) + " " + c.Name
	r.asked[key]++
	out, slow := r.down[key], r.slow
	r.mu.Unlock()
	if slow != nil {
		<-slow
	}
	if out != "" {
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

// TestAnAnswerIsOfTheRunThatWasAsked: what a run answers that has ended meanwhile is not said of the one after it, nor
// does that one begin with its failures.
func TestAnAnswerIsOfTheRunThatWasAsked(t *testing.T) {
	inBubble(t, func(r *rig) {
		answer := make(chan struct{})
		r.set(func() {
			r.runs("a")
			r.slow, r.down["a must"] = answer, "of the run before"
		})
		time.Sleep(time.Second)
		if n := r.count("a must"); n != 1 {
			t.Fatalf("it was asked %d times", n)
		}
		r.set(func() {
			r.state("a", alloc.TaskRunning)
			r.slow = nil
			delete(r.down, "a must")
		})
		close(answer)
		synctest.Wait()
		if said := r.said(); strings.Contains(said, "of the run before") {
			t.Errorf("the servers hear: %s", said)
		}
		if all := r.keeper.Of("a"); all[0].Status != service.Pending || all[0].Output == "of the run before" {
			t.Errorf("the run that has just begun is said to be %+v", all[0])
		}
		time.Sleep(2 * time.Second)
		if all := r.keeper.Of("a"); all[0].Status != service.Success {
			t.Errorf("it is asked itself, and said to be %+v", all[0])
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

// TestAScriptIsRunInItsTask: one that ends with code 0 passes; one with another, and one that does not end in time,
// fail, and restart the task that they are of.
func TestAScriptIsRunInItsTask(t *testing.T) {
	inBubble(t, func(r *rig) {
		script := func() {
			r.runs("a")
			of := r.allocs["a"].Bundle.Job.TaskGroups[0].Tasks[0].Services[0]
			of.PortLabel = ""
			c := of.Checks[0]
			c.Type = job.CheckScript
			c.Command, c.Args = "x", []string{"y"}
			of.Checks = of.Checks[:1]
		}
		r.set(script)
		time.Sleep(time.Second)
		if all := r.keeper.Of("a"); len(all) != 1 || all[0].Status != service.Success || all[0].Output != "x [y] in t" {
			t.Fatalf("it passes, and is said to be %+v", all)
		}
		r.set(func() { r.down["a must"] = "refused" })
		time.Sleep(10 * time.Second)
		if all := r.keeper.Of("a"); all[0].Status != service.Failure ||
			all[0].Output != "it ended with code 1\nrefused" {
			t.Errorf("it fails, and is said to be %+v", all[0])
		}
		r.set(func() { r.down["a must"] = "hangs" })
		time.Sleep(12 * time.Second)
		if all := r.keeper.Of("a"); all[0].Output !=
			"it did not end within the timeout of 1s, and was killed\nso far" {
			t.Errorf("it hangs, and is said to be %+v", all[0])
		}
		time.Sleep(20 * time.Second)
		if got := r.restarted(); len(got) != 1 || !strings.HasPrefix(got[0], `a "t": healthcheck: check "must"`) {
			t.Errorf("%q", got)
		}
		before := r.count("a must")
		r.set(func() { r.state("a", alloc.TaskPending) })
		time.Sleep(time.Minute)
		if n := r.count("a must"); n != before {
			t.Errorf("its task does not run, and it was run %d times", n-before)
		}
	})
}

// TestTheChecksOfOneAllocHoldUpNoOthers: given an alloc with many checks that never end, then those of another alloc
// are asked as if it were not there.
func TestTheChecksOfOneAllocHoldUpNoOthers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.set(func() {
			r.runs("hog")
			of := r.allocs["hog"].Bundle.Job.TaskGroups[0].Tasks[0].Services[0]
			of.PortLabel, of.Checks = "", nil
			for i := range 200 {
				name := fmt.Sprint("c", i)
				of.Checks = append(of.Checks, &job.ServiceCheck{
					Name:     name,
					Type:     job.CheckScript,
					Command:  "x",
					Interval: time.Second,
					Timeout:  24 * time.Hour,
				})
				r.down["hog "+name] = "hangs"
			}
		})
		time.Sleep(time.Minute)
		r.set(func() { r.runs("good") })
		time.Sleep(time.Second)
		if n := r.count("good must"); n != 1 {
			t.Errorf("after a second it was asked %d times", n)
		}
	})
}

// TestAnAgentThatEndsFindsNothing: given a script that runs in its task while the agent ends, and is ended with it,
// then that is no answer: the task is neither said to fail nor restarted, since the next agent asks anew.
func TestAnAgentThatEndsFindsNothing(t *testing.T) {
	var of *rig
	inBubble(t, func(r *rig) {
		of = r
		r.down["a must"] = "hangs"
		r.set(func() {
			r.runs("a")
			web := r.allocs["a"].Bundle.Job.TaskGroups[0].Tasks[0].Services[0]
			web.PortLabel, web.Checks = "", web.Checks[:1]
			web.Checks[0].Type, web.Checks[0].CheckRestart.Limit = job.CheckScript, 1
			web.Checks[0].CheckRestart.Grace = 0
		})
		time.Sleep(time.Second)
		if n := r.count("a must"); n != 1 {
			t.Fatalf("it was asked %d times", n)
		}
	})
	if said, restarts := of.said(), of.restarted(); said != "" || len(restarts) > 0 {
		t.Errorf("the servers hear %q, and %q are restarted", said, restarts)
	}
}
