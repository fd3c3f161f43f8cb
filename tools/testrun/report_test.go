package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// play takes events at one second each and returns what a person reads.
func play(t *testing.T, total int, events ...event) (string, *report) {
	t.Helper()
	var out strings.Builder
	now := time.Unix(0, 0)
	r := newReport(&out, total, func() time.Time { return now })
	for _, e := range events {
		now = now.Add(time.Second)
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.read(strings.NewReader(string(line) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	r.end()
	return out.String(), r
}

// Given packages that pass, when they end, then each is a line with how far the run is, and the slowest are named last.
func TestPackagesAreShownAsTheyEnd(t *testing.T) {
	got, r := play(t, 4,
		event{Action: "start", Package: "a"},
		event{Action: "output", Package: "a", Test: "TestX", Output: "chatter\n"},
		event{Action: "pass", Package: "a", Test: "TestX"},
		event{Action: "pass", Package: "a", Elapsed: 2.5},
		event{Action: "skip", Package: "none"},
		event{Action: "pass", Package: "b", Elapsed: 7},
		event{Action: "output", Package: "c", Output: "ok  \tc\t(cached)\n"},
		event{Action: "pass", Package: "c"},
	)
	want := `[  1/4     4s] ok   a 2.5s
[  3/4     6s] ok   b 7.0s
[  4/4     8s] ok   c 0.0s (cached)

the slowest of 2 packages, 8s in all:
      7.0s  b
      2.5s  a
`
	if got != want || r.failures() != 0 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Given tests that pass and tests that fail, when the run is over, then what the failed ones said stands at the end.
func TestTheWordsOfFailedTestsStandAtTheEnd(t *testing.T) {
	got, r := play(t, 9,
		event{Action: "start", Package: "a"},
		event{Action: "output", Package: "a", Test: "TestGood", Output: "chatter\n"},
		event{Action: "pass", Package: "a", Test: "TestGood"},
		event{Action: "output", Package: "a", Test: "TestBad", Output: "a_test.go:1: bad\n"},
		event{Action: "output", Package: "a", Test: "TestBad", Output: "--- FAIL: TestBad (0.00s)\n"},
		event{Action: "fail", Package: "a", Test: "TestBad"},
		event{Action: "output", Package: "a", Output: "FAIL\n"},
		event{Action: "fail", Package: "a", Elapsed: 1},
		event{Action: "build-output", ImportPath: "b [b.test]", Output: "b.go:1: undefined: x\n"},
		event{Action: "fail", Package: "b", FailedBuild: "b [b.test]"},
		event{Action: "start", Package: "c"},
		event{Action: "output", Package: "c", Test: "TestHangs", Output: "panic: test timed out\n"},
	)
	_, end, _ := strings.Cut(got, "\n=== a\n")
	want := `a_test.go:1: bad
--- FAIL: TestBad (0.00s)
FAIL

=== b
b.go:1: undefined: x

=== c
panic: test timed out

3 of 9 packages failed:
FAIL a
FAIL b
FAIL c
`
	if end != want || r.failures() != 3 {
		t.Errorf("got\n%s\nwant\n%s", end, want)
	}
	if strings.Contains(got, "chatter") {
		t.Errorf("a test that passed is repeated:\n%s", got)
	}
}

// Given few packages, each test is shown; given a long one, what still runs.
func TestALongWaitIsNotSilent(t *testing.T) {
	events := []event{{Action: "start", Package: "a"}, {Action: "pass", Package: "a", Test: "TestX", Elapsed: 3},
		{Action: "pass", Package: "a", Test: "TestX/sub"}}
	for range 31 {
		events = append(events, event{Action: "run", Package: "a", Test: "TestY"})
	}
	got, _ := play(t, 1, events...)
	if !strings.HasPrefix(got, "[  0/1     2s] ok   TestX (3.0s)\n[  0/1    32s] still running: a (31s)\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestPackagesAreCountedWithoutTheFlags(t *testing.T) {
	n, err := packages([]string{"-race", "-timeout", "15m", "-count=1", "berth/tools/testrun", "berth/tools/bench"})
	if err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
}

// Given a test that hangs beside one that has passed, when the program ends by its time, then what it says is shown,
// whosever go test takes it for.
func TestWhatADyingProgramSaysIsShown(t *testing.T) {
	got, _ := play(t, 1,
		event{Action: "start", Package: "a"},
		event{Action: "output", Package: "a", Test: "TestHangs", Output: "=== RUN TestHangs\n"},
		event{Action: "output", Package: "a", Test: "TestGood", Output: "--- PASS: TestGood (0.00s)\n"},
		event{Action: "output", Package: "a", Test: "TestGood", Output: "panic: test timed out after 15m0s\n"},
		event{Action: "output", Package: "a", Test: "TestGood", Output: "goroutine 7 [chan receive]:\n"},
		event{Action: "pass", Package: "a", Test: "TestGood"},
		event{Action: "fail", Package: "a", Elapsed: 900},
	)
	if want := "panic: test timed out after 15m0s\ngoroutine 7 [chan receive]:\n"; !strings.Contains(got, want) {
		t.Errorf("%q lacks %q", got, want)
	}
}
