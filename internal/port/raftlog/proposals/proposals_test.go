package proposals

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/lifecycle"
)

// applied is Raft, as far as it is asked: it says which entries it was handed, and ends them when it is let.
type applied struct {
	raft.ApplyFuture
	data string
	end  chan struct{}
}

func (a *applied) Error() error { <-a.end; return nil }

type log struct {
	Queue
	mu     sync.Mutex
	handed []*applied
}

// Apply implements Applier.
func (l *log) Apply(data []byte, _ time.Duration) raft.ApplyFuture {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &applied{data: string(data), end: make(chan struct{})}
	l.handed = append(l.handed, a)
	return a
}

// within runs a test of a log in a bubble: whatever happens by itself has happened after synctest.Wait.
func within(t *testing.T, test func(t *testing.T, g *lifecycle.Group, l *log)) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := lifecycle.NewGroup(t.Context())
		l := &log{Queue: Queue{Waiters: g, Refused: errors.New("closed")}}
		l.Raft = l
		defer func() {
			for _, a := range l.handed {
				close(a.end)
			}
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
			if l.groups != 0 || len(l.queue) != 0 {
				t.Errorf("%d groups are left, and %d entries wait", l.groups, len(l.queue))
			}
		}()
		test(t, g, l)
	})
}

func (l *log) datas() (out []string) {
	synctest.Wait()
	for _, a := range l.handed {
		out = append(out, a.data)
	}
	return out
}

// ended is how an entry has ended; nil: it has not.
func ended(c <-chan Result) *Result {
	synctest.Wait()
	select {
	case r := <-c:
		return &r
	default:
		return nil
	}
}

// TestEntriesWaitForNobodyUntilThereAreMany: as many groups as may be under way take one entry each, at once; what
// comes meanwhile goes together in the first that follows, each entry once and in the order in which they came.
func TestEntriesWaitForNobodyUntilThereAreMany(t *testing.T) {
	within(t, func(t *testing.T, _ *lifecycle.Group, l *log) {
		for range MaxGroups {
			l.Add([]byte("alone"), nil)
			synctest.Wait()
		}
		alone := slices.Repeat([]string{"alone"}, MaxGroups)
		var more []<-chan Result
		for _, data := range []string{"a", "b", "c"} {
			more = append(more, l.Add([]byte(data), nil))
		}
		if got := l.datas(); !slices.Equal(got, alone) {
			t.Fatalf("handed over are %q", got)
		}
		close(l.handed[0].end)
		if got := l.datas(); !slices.Equal(got, append(alone, "a", "b", "c")) { // though a has not ended
			t.Fatalf("handed over are %q", got)
		}
		l.handed = l.handed[1:]
		for i, c := range more {
			a := l.handed[MaxGroups-1]
			close(a.end)
			l.handed = slices.Delete(l.handed, MaxGroups-1, MaxGroups)
			if r := ended(c); r == nil || r.Future != raft.ApplyFuture(a) {
				t.Errorf("number %d has ended with %+v", i, r)
			}
		}
	})
}

// TestNoEntryIsLeftWhenTheLogIsClosed: what comes when nothing is waited for any more is refused.
func TestNoEntryIsLeftWhenTheLogIsClosed(t *testing.T) {
	within(t, func(t *testing.T, g *lifecycle.Group, l *log) {
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		for range 2 * MaxGroups {
			if r := ended(l.Add(nil, nil)); r == nil || r.Refused == nil || r.Future != nil {
				t.Errorf("it has ended with %+v", r)
			}
		}
		if len(l.handed) != 0 {
			t.Error("it is handed to Raft")
		}
	})
}

// TestWhoCameAtTheSameMomentIsRefusedToo: of two that come to a closed log at once, one may refuse both.
func TestWhoCameAtTheSameMomentIsRefusedToo(t *testing.T) {
	within(t, func(t *testing.T, g *lifecycle.Group, l *log) {
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		first := &proposal{ended: make(chan Result, 1)} // it is queued, and has not asked yet who waits for it
		l.queue = append(l.queue, first)
		for _, c := range []<-chan Result{l.Add(nil, nil), first.ended} {
			if r := ended(c); r == nil || r.Refused == nil {
				t.Errorf("it has ended with %+v", r)
			}
		}
	})
}

// TestWhatNobodyWaitsForIsNotBegun: an entry whose caller has given up before it went into the log does not go there.
func TestWhatNobodyWaitsForIsNotBegun(t *testing.T) {
	within(t, func(t *testing.T, _ *lifecycle.Group, l *log) {
		gone, waits := make(chan struct{}), make(chan struct{})
		close(gone)
		l.Add([]byte("of nobody"), gone)
		l.Add([]byte("of somebody"), waits)
		if got := l.datas(); !slices.Equal(got, []string{"of somebody"}) {
			t.Errorf("handed over are %q", got)
		}
	})
}

// TestWhoGivesUpInTheQueueIsNotBegun: so it is with an entry whose caller gives up while it waits for those before it.
func TestWhoGivesUpInTheQueueIsNotBegun(t *testing.T) {
	within(t, func(t *testing.T, _ *lifecycle.Group, l *log) {
		for range MaxGroups {
			l.Add([]byte("alone"), nil)
			synctest.Wait()
		}
		gone := make(chan struct{})
		l.Add([]byte("of nobody"), gone)
		l.Add([]byte("of somebody"), nil)
		close(gone)
		close(l.handed[0].end)
		if got := l.datas(); !slices.Equal(got[MaxGroups:], []string{"of somebody"}) {
			t.Errorf("handed over are %q", got)
		}
		l.handed = l.handed[1:]
	})
}
