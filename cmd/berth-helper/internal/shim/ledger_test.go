package shim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/internal/base/bootclock"
	"berth/internal/cgroup"
	"berth/internal/shimproto"
)

// attemptOf makes a process that nobody starts.
func attemptOf(task string, attempt int) *process {
	s := &Shim{alloc: "a", slice: "s", tree: &cgroup.Tree{V2: "/nowhere"}, ledger: ledger{}}
	n := shimproto.Named{Name: fmt.Sprint(task, ".", attempt), Task: task, Attempt: attempt}
	return newProcess(s, &shimproto.Launch{Named: n})
}

func TestALedgerAnswersWhatItKnows(t *testing.T) {
	l := ledger{}
	first := attemptOf("web", 1)
	if known, ended, before := l.admit(first); known != nil || ended != nil || before != nil {
		t.Fatal("a new attempt is not admitted")
	}
	if known, _, _ := l.admit(attemptOf("web", 1)); known != first {
		t.Error("the same launch, doubled, is another process")
	}
	if p, ended := l.find("web", 2); p != nil || ended != nil {
		t.Error("an attempt that nobody asked for is known")
	}
	second := attemptOf("web", 2)
	_, _, before := l.admit(second)
	if len(before) != 1 || before[0] != first {
		t.Error("the earlier attempt need not be gone before the next")
	}
	l.settle(first, shimproto.Exit{Code: 3}, true)
	if _, ended := l.find("web", 1); ended == nil || ended.Exit.Code != 3 || ended.Newest != 2 {
		t.Errorf("the end of the first attempt: %+v", ended)
	}
	if p, ended, _ := l.admit(attemptOf("web", 1)); p != nil || ended == nil || ended.Exit.Code != 3 {
		t.Errorf("a late launch of the first attempt: %+v", ended)
	}
	l.settle(second, shimproto.Exit{Code: 4}, true)
	if l.empty() {
		t.Error("an end that is waited for is nothing")
	}
	list := l.list()
	if len(list.Entries) != 1 || list.Entries[0].Attempt != 2 || !list.Entries[0].Ended || len(list.Ends) != 2 {
		t.Errorf("the list: %+v", list)
	}
	l.forget("web", 2)
	l.forget("web", 2)
	l.forget("db", 1)
	if !l.empty() || !l.list().Empty {
		t.Error("what was forgotten is still held")
	}
	if _, ended := l.find("web", 2); ended == nil || ended.Exit.Code != 4 {
		t.Errorf("after it was forgotten the end is %+v", ended)
	}
}

func TestAStartThatFailedMayBeTriedAgain(t *testing.T) {
	l := ledger{}
	p := attemptOf("web", 4)
	l.admit(p)
	l.drop(p)
	if p, ended := l.find("web", 4); p != nil || ended != nil || !l.empty() {
		t.Error("something is known of what never ran")
	}
	if _, ended := l.find("web", 3); ended == nil || !ended.Exit.Unknown {
		t.Error("an attempt that was passed over could still be started")
	}
	if known, ended, _ := l.admit(attemptOf("web", 4)); known != nil || ended != nil {
		t.Error("it is not admitted again")
	}
}

// TestEveryAttemptHasOneEnd takes random steps and holds each answer against what was said before.
func TestEveryAttemptHasOneEnd(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		l := ledger{}
		live := map[int]*process{}
		ends := map[int]shimproto.Exit{}
		newest, codes := 0, 0
		check := func(attempt int) {
			p, ended := l.find("web", attempt)
			want, known := ends[attempt]
			switch {
			case live[attempt] != p:
				t.Fatalf("seed %d: attempt %d: another process", seed, attempt)
			case p != nil:
			case known && attempt > newest-shimproto.Kept && (ended == nil || !cmp.Equal(ended.Exit, want)):
				t.Fatalf("seed %d: attempt %d ended %+v, and is said to have ended %+v", seed, attempt, want, ended)
			case attempt < newest && ended == nil:
				t.Fatalf("seed %d: attempt %d, below %d, could be started", seed, attempt, newest)
			case ended != nil && !ended.Exit.Unknown && !cmp.Equal(ended.Exit, want):
				t.Fatalf("seed %d: attempt %d never ended so: %+v", seed, attempt, ended)
			}
		}
		for range 300 {
			attempt := max(1, newest+2-r.IntN(20))
			switch p := live[attempt]; r.IntN(5) {
			case 0, 1:
				p := attemptOf("web", attempt)
				known, ended, before := l.admit(p)
				if known == nil && ended == nil {
					if attempt < newest {
						t.Fatalf("seed %d: attempt %d was admitted below %d", seed, attempt, newest)
					}
					if len(before) != len(live) {
						t.Fatalf("seed %d: %d processes live, %d are to be ended first", seed, len(live), len(before))
					}
					live[attempt], newest = p, attempt
				}
			case 2:
				if p != nil {
					codes++
					exit := shimproto.Exit{Code: codes}
					l.settle(p, exit, r.IntN(2) == 0)
					delete(live, attempt)
					ends[attempt] = exit
				}
			case 3:
				if p != nil {
					l.drop(p)
					delete(live, attempt)
				}
			case 4:
				l.forget("web", attempt)
			}
			check(attempt)
			check(max(1, attempt-r.IntN(30)))
		}
		for a := range newest {
			l.forget("web", a+1)
		}
		if l.empty() != (len(live) == 0) {
			t.Fatalf("seed %d: %d processes live, and it is empty: %t", seed, len(live), l.empty())
		}
	}
}

func TestALeaseOnlyMovesLater(t *testing.T) {
	a, err := bootclock.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	s := &Shim{alarm: a, ledger: ledger{}}
	now := shimproto.Boottime()
	in := func(d time.Duration) int64 { return now + int64(d) }
	for _, c := range []struct {
		what      string
		at, until int64
		want      int64
		over      bool
	}{
		{"the first", 10, in(time.Hour), in(time.Hour), false},
		{"a later one", 20, in(2 * time.Hour), in(2 * time.Hour), false},
		{"an earlier deadline", 30, in(time.Hour), in(2 * time.Hour), false},
		{"a word that is late", 25, in(5 * time.Hour), in(2 * time.Hour), false},
		{"the same word again", 30, in(time.Hour), in(2 * time.Hour), false},
		{"the end of the lease", 40, 0, 0, false},
		{"a word from before that end", 35, in(-time.Hour), 0, false},
		{"a deadline that has passed", 50, in(-time.Second), in(-time.Second), true},
		{"a new one after that", 60, in(time.Hour), in(time.Hour), false},
	} {
		got := s.renew(&shimproto.Lease{At: c.at, Deadline: c.until})
		if got.Deadline != c.want || s.leaseOver() != c.over {
			t.Errorf("%s: deadline %d, want %d, over %t", c.what, got.Deadline, c.want, s.leaseOver())
		}
	}
}
