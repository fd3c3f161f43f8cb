package consulreads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/render"
	"berth/internal/client/sources"
)

var (
	web = sources.Task{Alloc: "a", Name: "web"}
	db  = sources.Task{Alloc: "b", Name: "db"}
)

func key(name string) render.Source { return render.Source{Kind: render.ConsulKey, Name: name} }

// fake is a Consul with keys, and hears what is passed on.
type fake struct {
	mu    sync.Mutex
	index uint64
	of    map[string]string
	now   chan struct{}
	why   error
	kept  map[string]error // what alone is not said
	busy  int              // calls under way
	most  int
	calls int
	heard []string
}

func (f *fake) set(name, value string, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index++
	f.of[name], f.why = value, why
	close(f.now)
	f.now = make(chan struct{})
}

func (f *fake) Read(ctx context.Context, s render.Source, after uint64, wait time.Duration) (string, uint64, error) {
	f.mu.Lock()
	f.calls++
	f.busy++
	f.most = max(f.most, f.busy)
	text, index := f.of[s.Name], f.index
	why, now := cmp.Or(f.kept[s.Name], f.why), f.now
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.busy--
		f.mu.Unlock()
	}()
	if why != nil || after < index {
		return text, index, why
	}
	select {
	case <-ctx.Done():
		return "", 0, ctx.Err()
	case <-time.After(wait):
	case <-now:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[s.Name], f.index, cmp.Or(f.kept[s.Name], f.why)
}

func (f *fake) hear(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, fmt.Sprintf(format, args...))
}

// since is what was passed on since it was asked last.
func (f *fake) since() []string {
	synctest.Wait()
	time.Sleep(time.Minute)
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.heard
	f.heard = nil
	return out
}

func (f *fake) Tell(t sources.Task, s render.Source, text string) {
	f.hear("%s: %s is %s", t.Name, s.Name, text)
}

func (f *fake) Refuse(t sources.Task, s render.Source, why error) {
	f.hear("%s: %s: %s", t.Name, s.Name, why)
}

// play runs a keeper that asks a fake in a bubble of its own.
func play(t *testing.T, story func(f *fake, k *Keeper)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{index: 1, of: map[string]string{}, kept: map[string]error{}, now: make(chan struct{})}
		k := New(Config{
			As:  func(sources.Task) (Reader, error) { return f, nil },
			To:  f,
			Say: func(t sources.Task, text string) { f.hear("%s says %s", t.Name, text) },
			Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()
		story(f, k)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (f *fake) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := f.since(); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// TestWhatChangesIsPassedOn: once each time, to each who reads it, however often it is wanted, and nobody asks for what
// nobody reads any more.
func TestWhatChangesIsPassedOn(t *testing.T) {
	play(t, func(f *fake, k *Keeper) {
		f.of["a"] = "1"
		k.Want(web, []render.Source{key("a")})
		k.Want(web, []render.Source{key("a")})
		f.expect(t, "web: a is 1")
		f.set("a", "2", nil)
		f.expect(t, "web: a is 2")
		f.set("other", "x", nil)
		f.expect(t)
		k.Want(db, []render.Source{key("a")})
		f.expect(t, "db: a is 2")
		k.Forget(web)
		f.expect(t)
		if f.busy != 1 {
			t.Errorf("for the one who still reads it, %d calls are under way", f.busy)
		}
		f.set("a", "3", nil)
		f.expect(t, "db: a is 3")
		k.Want(db, []render.Source{key("a")})
		f.expect(t)
		k.Forget(db)
		f.expect(t)
		if f.busy != 0 {
			t.Errorf("when nobody reads it, %d calls are under way", f.busy)
		}
		before := f.calls
		f.set("a", "4", nil)
		f.expect(t)
		if f.calls != before {
			t.Errorf("asked %d times more", f.calls-before)
		}
	})
}

// TestWhatWasSaidStaysWhileConsulIsAway: the events of a task say that once, however much it reads and however long it
// takes; who has nothing yet hears why; and what came meanwhile is passed on when Consul is back, which may have
// begun to count anew.
func TestWhatWasSaidStaysWhileConsulIsAway(t *testing.T) {
	play(t, func(f *fake, k *Keeper) {
		f.of["a"], f.index = "1", 50
		k.Want(web, []render.Source{key("a")})
		f.expect(t, "web: a is 1")
		f.set("a", "1", errors.New("away"))
		f.expect(t, "web says What was rendered stays: away")
		k.Want(web, []render.Source{key("b")})
		if got := slices.Compact(f.since()); !reflect.DeepEqual(got, []string{"web: b: away"}) {
			t.Errorf("heard %q", got)
		}
		k.Forget(web)
		k.Want(db, []render.Source{key("a")})
		f.index = 3
		f.set("a", "2", nil)
		f.expect(t, "db: a is 2")
		f.index = 1
		f.set("a", "3", nil)
		synctest.Wait()
		f.mu.Lock() // it rests, and no call is under way that would hear of this
		f.of["a"], f.index = "4", 3
		f.mu.Unlock()
		f.expect(t, "db: a is 3", "db: a is 4")
	})
}

// TestAConsulThatIsBackIsHeardAtOnce: of what is another thing, whatever it counts from; and what is the same is no
// news.
func TestAConsulThatIsBackIsHeardAtOnce(t *testing.T) {
	play(t, func(f *fake, k *Keeper) {
		f.index = 50
		f.of["a"], f.of["b"] = "1", "1"
		k.Want(web, []render.Source{key("a"), key("b")})
		f.since()
		f.set("a", "1", errors.New("away"))
		f.expect(t, "web says What was rendered stays: away")
		f.index = 3
		f.set("a", "2", nil)
		f.expect(t, "web: a is 2")
	})
}

// TestTheEventsOfATaskAreOfItsOwn: given what a task never got and what another one reads, when what a task has fails,
// then its events say so, each task's once.
func TestTheEventsOfATaskAreOfItsOwn(t *testing.T) {
	play(t, func(f *fake, k *Keeper) {
		f.of["a"], f.kept["secret"] = "1", errors.New("kept")
		k.Want(web, []render.Source{key("a"), key("secret")})
		k.Want(db, []render.Source{key("a")})
		f.since()
		f.set("a", "1", errors.New("away"))
		got := slices.DeleteFunc(f.since(), func(s string) bool { return s == "web: secret: kept" })
		slices.Sort(got)
		if want := []string{
			"db says What was rendered stays: away", "web says What was rendered stays: away",
		}; !reflect.DeepEqual(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
	})
}

// TestWhoMayNotAskHearsWhy: a task that has no token hears that, and of which source.
func TestWhoMayNotAskHearsWhy(t *testing.T) {
	play(t, func(f *fake, k *Keeper) {
		k.cfg.As = func(sources.Task) (Reader, error) {
			return nil, fault.New(fault.Denied, "log in", "the task", "no method knows it")
		}
		k.Want(web, []render.Source{key("a")})
		heard := f.since()
		if len(heard) == 0 || !strings.Contains(heard[0], key("a").String()) ||
			!strings.Contains(heard[0], "no method") {
			t.Errorf("heard %q", heard)
		}
	})
}

// TestManySourcesTakeTurns: no more are asked for at once than an agent of Consul takes, and all are heard of, those
// that came last and those that change, too.
func TestManySourcesTakeTurns(t *testing.T) {
	play(t, func(f *fake, k *Keeper) {
		for i := range 3 * atOnce {
			if i == atOnce {
				time.Sleep(time.Second) // those that came first are asked for by calls that block for long
			}
			k.Want(web, []render.Source{key(fmt.Sprint("k", i))})
			synctest.Wait()
		}
		if got := len(f.since()); got != 3*atOnce {
			t.Errorf("%d were heard of, not %d", got, 3*atOnce)
		}
		f.mu.Lock()
		for i := range 3 * atOnce {
			f.of[fmt.Sprint("k", i)] = "new" // no call under way hears of it
		}
		f.index++
		f.mu.Unlock()
		if got := len(f.since()); got != 3*atOnce {
			t.Errorf("%d changes were heard of, not %d", got, 3*atOnce)
		}
		if f.most > atOnce {
			t.Errorf("%d calls at a time", f.most)
		}
	})
}
