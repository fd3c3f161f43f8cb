package conns

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// sockets are those of several tasks, all of one user, behind one gate.
func sockets(t *testing.T, b Bounds, n int) (w *world, tasks []net.Addr, working chan bool) {
	working = make(chan bool)
	w = &world{t: t, log: &text{}}
	w.gate = New(b, slog.New(slog.NewTextHandler(w.log, nil))).Tasks()
	for i := range n {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- w.gate.Serve(ctx, l, guarded(func(_ http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					working <- true
				}
				_, _ = io.Copy(io.Discard, r.Body)
			}))
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		tasks = append(tasks, l.Addr())
	}
	return w, tasks, working
}

// Given a task that has as many connections as one may have, all at work, then the next of it is refused, and another
// task of the same user is served.
func TestATaskKeepsNoOtherOut(t *testing.T) {
	w, tasks, working := sockets(t, Bounds{Total: 100, PerClient: 3}, 2)
	for range 3 {
		w.busy(tasks[0], working)
	}
	if got, why := w.get(tasks[0]); got != http.StatusTooManyRequests || !strings.Contains(why, "3 connections") {
		t.Errorf("the next of the task: %d %s", got, why)
	}
	if !strings.Contains(w.log.String(), tasks[0].String()) {
		t.Errorf("the log does not say which task it is: %s", w.log)
	}
	if got, why := w.get(tasks[1]); got != http.StatusOK {
		t.Errorf("another task: %d %s", got, why)
	}
}

// Given all places of tasks taken by requests at work, then a task that has less than its share gets in: the oldest
// request of the one that has the most is cut. One that has its share is refused.
func TestTheGreediestTaskGivesWay(t *testing.T) {
	w, tasks, working := sockets(t, Bounds{Total: 10, PerClient: 10}, 3)
	var greedy []*client
	for range 4 {
		greedy = append(greedy, w.busy(tasks[0], working))
	}
	second := w.busy(tasks[1], working) // that is five, all that there may be
	kept := w.busy(tasks[2], working)
	if got, _ := greedy[0].status(); got != 0 {
		t.Errorf("the oldest of the task with the most was answered %d", got)
	}
	if again := w.busy(tasks[2], working); w.held() != 5 {
		t.Errorf("%v is one of %d", again.LocalAddr(), w.held())
	}
	if got, why := w.get(tasks[2]); got != http.StatusServiceUnavailable {
		t.Errorf("more than a share: %d %s", got, why)
	}
	for _, c := range append(greedy[2:], second, kept) {
		c.send("12345")
		if got, _ := c.status(); got != http.StatusOK {
			t.Errorf("one at work was cut: %d", got)
		}
	}
}

// Given the bounds of an agent, then tasks have a part of them, none where the agent has none, and never more than
// others have.
func TestWhatTasksHave(t *testing.T) {
	for _, c := range []struct{ agent, tasks Bounds }{
		{Bounds{4096, 2048}, Bounds{2048, 128}},
		{Bounds{64, 32}, Bounds{32, 16}},
		{Bounds{1, 4}, Bounds{1, 4}},
		{Bounds{}, Bounds{}},
	} {
		if got := c.agent.OfTasks(); got != c.tasks {
			t.Errorf("%+v: %+v, want %+v", c.agent, got, c.tasks)
		}
	}
}
