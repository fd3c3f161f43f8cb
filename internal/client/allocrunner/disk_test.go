package allocrunner_test

import (
	"slices"
	"testing"
	"time"

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
