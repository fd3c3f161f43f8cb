package allocrunner_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"berth/internal/client/hook"
	"berth/internal/model/alloc"
)

// Given an alloc that takes too much of the disk, when that is said again and again, then its tasks are ended once, by
// name, nothing is restarted, and the alloc has failed.
func TestTooMuchOfTheDiskEndsTheTasksByName(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil), tsk("web", nil))
		b.start()
		b.after(time.Second)
		const reason = "the allocation takes 12 MiB of the node's disk, ephemeral_disk allows 10 MiB"
		b.r.DiskExceeded(reason)
		b.r.DiskExceeded(reason)
		b.after(time.Hour)
		b.status(alloc.ClientFailed)
		b.alive()
		for _, task := range []string{"db", "web"} {
			want := []string{`Task "` + task + `" is stopped: ` + reason}
			if got := b.events(task, alloc.EventDiskExceeded); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", task, got, want)
			}
			if st := b.r.Report().TaskStates[task]; st.Restarts != 0 || !st.Failed {
				t.Errorf("%s: %+v", task, st)
			}
		}
		b.end()
	})
}

// fetches is a hook that is long about it.
type fetches struct{}

func (fetches) Name() string { return "fetches" }

func (fetches) Prestart(ctx context.Context, t *hook.Task) error {
	if t.Task.Name != "web" {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// Given a task that is being prepared while another runs, when the alloc takes too much of the disk, then what prepares
// it ends as well: it may be what takes that much.
func TestTooMuchOfTheDiskEndsWhatPreparesATask(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil), tsk("web", nil))
		b.tasks = append(b.tasks, fetches{})
		b.start()
		b.after(time.Minute)
		b.alive("db.1")
		b.r.DiskExceeded("too much")
		b.after(time.Minute)
		b.status(alloc.ClientFailed)
		b.alive()
		if got := b.events("web", alloc.EventDiskExceeded); len(got) != 1 {
			t.Errorf("web: %q", got)
		}
		b.end()
	})
}

// Nobody but a person ends what the servers do not know.
func TestAnOrphanIsNotEndedForItsDisk(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.start()
		b.after(time.Second)
		if err := b.r.Keep("the servers do not know it", time.Now()); err != nil {
			t.Fatal(err)
		}
		b.r.DiskExceeded("too much")
		b.after(time.Hour)
		b.alive("db.1")
		b.end()
	})
}
