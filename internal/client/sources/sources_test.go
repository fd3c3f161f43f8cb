package sources

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/base/render"
	"berth/internal/wire"
)

var (
	web = Task{Alloc: "a", Name: "web"}
	db  = Task{Alloc: "b", Name: "db"}
	one = render.Source{Kind: render.Variable, Name: "one"}
	two = render.Source{Kind: render.Variable, Name: "two"}
)

// said are servers that say what they are told to, and count how often they are asked.
type said struct {
	mu    sync.Mutex
	of    map[render.Source]string
	now   chan struct{}
	calls int
	down  bool
}

func (s *said) say(of render.Source, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[of] = text
	close(s.now)
	s.now = make(chan struct{})
}

func (s *said) ask(ctx context.Context, tasks []wire.TaskSources, wait time.Duration) ([]wire.SourcesAnswer, error) {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	for {
		s.mu.Lock()
		if s.down {
			s.mu.Unlock()
			return nil, errors.New("nobody answers")
		}
		var out []wire.SourcesAnswer
		for _, t := range tasks {
			a := wire.SourcesAnswer{Alloc: t.Alloc, Task: t.Task}
			for _, source := range t.Sources {
				a.Mark += "," + s.of[source]
				a.Values = append(a.Values, wire.Secrets{Values: map[string]string{wire.SourceText: s.of[source]}})
			}
			if a.Mark != t.Seen {
				out = append(out, a)
			}
		}
		now := s.now
		s.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
			return nil, nil
		case <-now:
		}
	}
}

// asked is how often they were asked so far.
func (s *said) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Given tasks that read, then all are asked for in one call at a time; each is looked at again when what it reads is
// another thing, and no other; and nobody is asked while nothing changes, or when none is left.
func TestTasksFollowWhatTheyRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := &said{of: map[render.Source]string{one: "1", two: "2"}, now: make(chan struct{})}
		k := New(servers.ask, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		var looked []string
		var mu sync.Mutex
		follow := func(of Task) {
			k.Follow(of, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				looked = append(looked, of.Name)
				return nil
			})
		}
		seen := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(looked)
			if !slices.Equal(looked, want) {
				t.Errorf("%s: looked at %v, want %v", what, looked, want)
			}
			looked = nil
		}
		_, heard, err := k.Known(web)
		if err != nil {
			t.Fatal(err)
		}
		k.Want(web, []render.Source{one})
		<-heard
		k.Want(web, []render.Source{one, two}) // more, found by the next rendering
		k.Want(db, []render.Source{two})
		synctest.Wait()
		known, _, err := k.Known(web)
		if err != nil || known[one] != "1" || known[two] != "2" || len(known) != 2 {
			t.Errorf("known is %v %v", known, err)
		}
		follow(web)
		follow(db)
		seen("at the beginning", "db", "web")
		servers.say(one, "changed")
		seen("what one reads", "web")
		servers.say(two, "changed")
		seen("what both read", "db", "web")
		k.Follow(web, nil)
		servers.say(one, "again")
		seen("of one that ended")
		if known, _, _ := k.Known(web); known[one] != "again" {
			t.Errorf("its next start knows %v", known)
		}

		servers.mu.Lock()
		servers.down = true
		servers.mu.Unlock()
		calls := servers.asked()
		servers.say(two, "unheard")
		time.Sleep(time.Minute)
		seen("nobody answers")
		if n := servers.asked() - calls; n > 12 {
			t.Errorf("asked %d times within a minute", n)
		}
		servers.mu.Lock()
		servers.down = false
		servers.mu.Unlock()
		time.Sleep(again.Max)
		seen("they answer again", "db")

		calls = servers.asked()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := servers.asked() - calls; n > int(time.Hour/wait)+1 {
			t.Errorf("asked %d times within an hour in which nothing changed", n)
		}
		k.Forget(web)
		k.Forget(db)
		synctest.Wait()
		calls = servers.asked()
		time.Sleep(time.Hour)
		synctest.Wait()
		if servers.asked() != calls {
			t.Error("asked for nobody")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// asksConsul notes what Consul is asked for.
type asksConsul struct{ wants, forgotten []string }

func (c *asksConsul) Want(t Task, more []render.Source) {
	for _, s := range more {
		c.wants = append(c.wants, t.Name+" "+s.Name)
	}
}

func (c *asksConsul) Forget(t Task) { c.forgotten = append(c.forgotten, t.Name) }

func (c *asksConsul) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Given a task that makes names of what it reads of a secret, when the servers or Consul refuse what is so named, then
// what they say is said without the secret, to that task and also when the secret is another by now.
func TestWhatIsRefusedIsSaidWithoutSecrets(t *testing.T) {
	k := New(nil, slog.New(slog.DiscardHandler))
	k.UseConsul(&asksConsul{})
	k.Hide(web, redact.Map{"a": redact.New("s3cret-canary")})
	k.Hide(web, redact.Map{"a": redact.New("another-canary"), "b": redact.New("s3cret-canary")})
	if n := len(k.tasks[web].hidden); n != 2 {
		t.Errorf("%d values are hidden", n)
	}
	a := render.Source{Kind: render.ConsulKey, Name: "a"}
	k.Refuse(web, a, errors.New(`key "s3cret-canary": denied`))
	if _, _, err := k.Known(web); !fault.Has(err, fault.NotReady) || err.Error() != `key "***": denied` {
		t.Errorf("Consul: %v", err)
	}
	k.of(web).answer = &wire.SourcesAnswer{Refused: `variable "app/another-canary" of s3cret-canary`, Final: true}
	if _, _, err := k.Known(web); !fault.Has(err, fault.Denied) || err.Error() != `variable "app/***" of ***` {
		t.Errorf("the servers: %v", err)
	}
}

// Given a task that reads of the servers and of Consul, then each is asked for its own; what Consul says has the task
// looked at, and what it refuses is said until it says it; and on a node without Consul that is said.
func TestEachIsAskedForItsOwn(t *testing.T) {
	a := render.Source{Kind: render.ConsulKey, Name: "a"}
	c := &asksConsul{}
	k := New(nil, slog.New(slog.DiscardHandler))
	k.UseConsul(c)
	k.Want(web, []render.Source{one, a})
	if r := k.tasks[web]; !slices.Equal(r.sources, []render.Source{one}) || !slices.Equal(c.wants, []string{"web a"}) {
		t.Errorf("the servers are asked for %v, Consul for %v", r.sources, c.wants)
	}
	_, heard, err := k.Known(web)
	if err != nil {
		t.Error(err)
	}
	closed := func(of <-chan struct{}) bool {
		select {
		case <-of:
			return true
		default:
			return false
		}
	}
	k.Refuse(web, a, errors.New("denied"))
	known, again, err := k.Known(web)
	if !closed(heard) || !fault.Has(err, fault.NotReady) || len(known) != 0 {
		t.Errorf("%v, %v", known, err)
	}
	if k.Refuse(web, a, errors.New("denied")); closed(again) {
		t.Error("the same refusal is news")
	}
	k.Tell(web, a, "1")
	if known, _, err := k.Known(web); !closed(again) || err != nil || known[a] != "1" {
		t.Errorf("%v, %v", known, err)
	}
	if k.Forget(web); !slices.Equal(c.forgotten, []string{"web"}) {
		t.Errorf("forgotten are %v", c.forgotten)
	}
	without := New(nil, slog.New(slog.DiscardHandler))
	without.Want(web, []render.Source{a})
	if _, _, err := without.Known(web); !fault.Has(err, fault.NotReady) {
		t.Errorf("on a node without Consul: %v", err)
	}
}
