package artifacts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/job"
)

// taking asks for a turn, and tells when it has come.
func taking(ctx context.Context, turns *turns, o owner) *atomic.Bool {
	var has atomic.Bool
	go func() {
		if turns.take(ctx, o) == nil {
			has.Store(true)
		}
	}()
	synctest.Wait()
	return &has
}

func jobNamed(namespace, id string) owner { return owner{ids.Namespace(namespace), ids.Job(id)} }

// Given a job that fetches as many as it may for as long as it may, when others come, of another namespace or its own,
// then each begins at once; further ones wait, and of those that wait the job that has least goes first.
func TestNoJobKeepsOthersFromFetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		turns := &turns{}
		slow, other := jobNamed("a", "slow"), jobNamed("a", "other")
		for range atOnce {
			if !taking(ctx, turns, slow).Load() {
				t.Fatal("there was a turn, and it had none")
			}
		}
		again := taking(ctx, turns, slow)
		if again.Load() {
			t.Error("it has more than it may have")
		}
		for _, o := range []owner{other, jobNamed("b", "slow")} {
			if !taking(ctx, turns, o).Load() {
				t.Errorf("%v waits for others", o)
			}
		}
		second := taking(ctx, turns, other)
		if second.Load() {
			t.Error("a second one of another job has a turn that nobody gave back")
		}
		turns.leave(slow)
		synctest.Wait()
		if !second.Load() || again.Load() {
			t.Error("who has least does not go first")
		}
		cancel()
		synctest.Wait()
		if len(turns.waiting) != 0 {
			t.Error("who went away still waits")
		}
	})
}

// Given as many jobs as fetch at a time, when another of their namespace comes, then it waits until one has ended; one
// of a namespace that has none does not.
func TestNoNamespaceKeepsOthersFromFetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{}
		for i := range jobsAtOnce {
			taking(t.Context(), turns, jobNamed("a", fmt.Sprint(i)))
		}
		late := taking(t.Context(), turns, jobNamed("a", "late"))
		if late.Load() || !taking(t.Context(), turns, jobNamed("b", "x")).Load() {
			t.Error("the turn of a namespace that has none is another's")
		}
		turns.leave(jobNamed("a", "3"))
		turns.leave(jobNamed("b", "x"))
		synctest.Wait()
		if !late.Load() {
			t.Error("who waits has no turn when one ends")
		}
	})
}

// Given a turn that comes just when who waits for it goes away, then it is another's.
func TestASlotIsNotLostWithWhoWaitedForIt(t *testing.T) {
	turns := &turns{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if err := turns.take(ctx, owner{}); err == nil {
			turns.leave(owner{})
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if len(turns.by) != 0 || len(turns.waiting) != 0 {
		t.Errorf("left are %v and %v", turns.by, turns.waiting)
	}
}

// What a job launches is that job's: to launch another is no way to another turn.
func TestWhatAJobLaunchesSharesItsTurns(t *testing.T) {
	if ownerOf(&job.Job{ID: "p/dispatch-1", ParentID: "p"}) != ownerOf(&job.Job{ID: "p"}) {
		t.Error("it has turns of its own")
	}
}

// Given artifacts that wait for their turn, when it takes long, then the task says so, less and less often.
func TestWhoWaitsToFetchSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var waits atomic.Int64
		waits.Store(2)
		var said []string
		sayWaiting(ctx, &waits, func(s string) { said = append(said, s) })
		const text = "Waiting for the turn of 2 artifacts: 4 of a job are fetched at a time"
		if !slices.Equal(said, []string{text, text, text, text}) {
			t.Errorf("it said %q", said)
		}
	})
}
