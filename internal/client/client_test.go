package client_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"berth/internal/model/alloc"
)

func TestAPlacedAllocRunsAndItsStatesArePushed(t *testing.T) {
	r := newRig(t)
	r.start()

	id := r.servers.place(service(task("web", nil)))

	eventually(t, "the servers hear that it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	if got := r.mock.Alive(); !slices.Equal(got, []string{"web.1"}) {
		t.Errorf("alive: %v", got)
	}
	r.servers.stop(id)
	eventually(t, "the servers hear that it is complete", func() bool {
		return r.servers.status(id) == alloc.ClientComplete
	})
	if got := r.mock.Alive(); len(got) != 0 {
		t.Errorf("still alive after complete was said: %v", got)
	}
	if got := r.servers.states(id); !slices.Equal(got,
		[]string{alloc.ClientRunning, alloc.ClientComplete}) { // that it is pending they know
		t.Errorf("states told: %v", got)
	}
	want := []string{alloc.EventReceived, alloc.EventTaskSetup, alloc.EventStarted, alloc.EventKilling,
		alloc.EventTerminated, alloc.EventKilled}
	if got := r.servers.events(id, "web"); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// TestALongFailureDoesNotKeepANodeFromReporting: what a task fails by can be longer than what servers take, as a job's
// command can; they hear of it, with its beginning and its end, and of the other allocs.
func TestALongFailureDoesNotKeepANodeFromReporting(t *testing.T) {
	r := newRig(t)
	r.start()
	long := "command " + strings.Repeat("ü", alloc.MaxReportedText) + " is not there"
	id := r.servers.place(service(task("web", map[string]any{"start_error": long, "start_error_final": true})))
	other := r.servers.place(service(task("db", nil)))
	eventually(t, "the servers hear that it has failed", func() bool {
		return r.servers.status(id) == alloc.ClientFailed
	})
	eventually(t, "the servers hear that another runs", func() bool {
		return r.servers.status(other) == alloc.ClientRunning
	})
	found := false
	for _, e := range r.servers.last(id).TaskStates["web"].Events {
		if strings.Contains(e.DisplayMessage, "command üü") {
			found = true
			if !strings.HasSuffix(e.DisplayMessage, "is not there") || !utf8.ValidString(e.DisplayMessage) {
				t.Errorf("it ends with %q", e.DisplayMessage[len(e.DisplayMessage)-20:])
			}
		}
	}
	if !found {
		t.Error("no event tells of it")
	}
}

// TestANodeThatIsToRegisterAgainReportsWhatIsNotNew: what the servers acknowledged they may have given up since.
func TestANodeThatIsToRegisterAgainReportsWhatIsNotNew(t *testing.T) {
	r := newRig(t)
	r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "the servers hear that it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	r.servers.change(func() { delete(r.servers.reported, id) })
	for range 2 { // the second is asked for when the first was obeyed
		r.servers.change(func() { r.servers.again = true })
		eventually(t, "the node is asked to register", func() bool { return !r.servers.asks() })
	}
	other := r.servers.place(service(task("db", nil)))
	eventually(t, "what is new is reported", func() bool { return r.servers.status(other) == alloc.ClientRunning })
	if got := r.servers.status(id); got != alloc.ClientRunning {
		t.Errorf("the servers hear %q of what runs on", got)
	}
}

func TestTasksOutliveTheAgentAndAreFoundAgain(t *testing.T) {
	r := newRig(t)
	first := r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	node := first.ID()

	first.stop()
	if got := r.mock.Alive(); len(got) != 1 {
		t.Fatalf("the agent's end took the task along: %v", got)
	}
	second := r.start()

	if second.ID() != node {
		t.Errorf("the node changed its id from %s to %s", node, second.ID())
	}
	eventually(t, "the task is found", func() bool { return slices.Contains(r.mock.Log(), "recover web.1") })
	r.servers.stop(id)
	eventually(t, "it stops", func() bool { return r.servers.status(id) == alloc.ClientComplete })
	if got := r.servers.report(id).TaskStates["web"].Restarts; got != 0 {
		t.Errorf("%d restarts", got)
	}
	if starts := count(r.mock.Log(), "start web.1") + count(r.mock.Log(), "start web.2"); starts != 1 {
		t.Errorf("started %d times: %v", starts, r.mock.Log())
	}
}

func count(lines []string, want string) int {
	n := 0
	for _, l := range lines {
		if l == want {
			n++
		}
	}
	return n
}

func TestAnAllocThatIsLeftOutOfTheSetIsKeptUntilTheServersConfirmThatTheyDontKnowIt(t *testing.T) {
	r := newRig(t)
	c := r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })

	r.servers.change(func() { r.servers.forgotten[id] = true })
	other := r.servers.place(service(task("other", nil)))
	eventually(t, "a later alloc runs", func() bool { return r.servers.status(other) == alloc.ClientRunning })
	if got := r.mock.Alive(); !slices.Contains(got, "web.1") {
		t.Fatalf("an alloc was ended that the servers know: %v", got)
	}

	r.servers.change(func() { delete(r.servers.allocs, id) })
	eventually(t, "it is ended", func() bool { return !slices.Contains(r.mock.Alive(), "web.1") })
	eventually(t, "its directory is gone", func() bool {
		_, err := os.Stat(filepath.Join(c.AllocDir(), string(id)))
		return os.IsNotExist(err)
	})
	eventually(t, "it is forgotten", func() bool { return !c.Known(id) })
	if gone, why := c.ProcessesGone(id); !gone {
		t.Errorf("its processes are not said to be gone: %s", why)
	}
}

func TestAnIdleNodeUsesNoProcessor(t *testing.T) {
	r := newRig(t)
	c := r.start()
	id := r.servers.place(service(task("web", nil)))
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	eventually(t, "the node is armed", c.Armed)
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	// What earlier tests have left to the garbage collector is not the node's; a node that is busy is so all the time.
	eventually(t, "it uses less than 150 ms of a processor in half a second", func() bool {
		before := used()
		time.Sleep(500 * time.Millisecond)
		return used()-before < 150*time.Millisecond
	})
}
