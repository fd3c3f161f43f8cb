package allocrunner_test

import (
	"slices"
	"testing"
	"time"

	"berth/internal/client/localstate"
	"berth/internal/model/job"
)

// decide says that the servers know the alloc again.
func (b *bench) decide() {
	b.commit(b.r.Stamp(b.r.Received()))
}

// Given an orphan whose task runs, when an agent starts anew, then nothing is prepared for it, however long it waits,
// until the servers know it again.
func TestNothingIsPreparedForAnOrphan(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.scripted("volumes")
		b.start()
		b.alive("db.1")
		b.end()
		b.store.alloc.Orphan = &localstate.Orphan{Reason: "lost", Since: time.Now()}

		b.start()
		b.after(time.Hour)
		b.alive("db.1")
		if want := []string{"pre volumes"}; !slices.Equal(b.said(), want) {
			t.Fatalf("hooks of an orphan: %v, want those of the first agent run alone: %v", b.said(), want)
		}
		b.decide()
		b.after(time.Second)
		if want := []string{"pre volumes", "pre volumes"}; !slices.Equal(b.said(), want) {
			t.Errorf("hooks once the servers know it: %v, want %v", b.said(), want)
		}
		b.alive("db.1")
		b.end()
	})
}

// Given an orphan whose volume died, when its users are to be restarted, then they are left alone; the same alloc under
// the servers restarts them.
func TestUsersOfAnOrphansVolumeAreNotRestarted(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t,
			tsk("db", nil, func(t *job.Task) {
				t.VolumeMounts = []*job.VolumeMount{{Volume: "data", Destination: "/data"}}
			}))
		b.start()
		if err := b.r.Keep("lost", time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := b.r.RestartUsers("data", "the volume is dead"); err != nil {
			t.Fatal(err)
		}
		b.after(time.Minute)
		b.alive("db.1")

		b.decide()
		if err := b.r.RestartUsers("data", "the volume is dead"); err != nil {
			t.Fatal(err)
		}
		b.after(time.Minute)
		b.alive("db.2")
		b.end()
	})
}

// Given an orphan whose task runs, when it is adopted, then the hooks before its first task run once more, for its
// claims are new, and its process goes on; a later change of the same adoption runs none.
func TestAnAdoptedAllocAsksForItsVolumesAnew(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.scripted("volumes")
		b.start()
		b.alive("db.1")
		if err := b.r.Keep("lost", time.Now()); err != nil {
			t.Fatal(err)
		}
		b.after(time.Second)
		if want := []string{"pre volumes"}; !slices.Equal(b.said(), want) {
			t.Fatalf("hooks of an orphan: %v, want %v", b.said(), want)
		}
		for _, index := range []uint64{8, 9} {
			now := b.r.Bundle()
			a := *now.Alloc
			a.Adopted, a.AllocModifyIndex = 7, index
			now.Alloc = &a
			b.commit(b.r.Update(now, b.r.Received()))
			b.after(time.Second)
			if want := []string{"pre volumes", "pre volumes"}; !slices.Equal(b.said(), want) {
				t.Errorf("hooks at index %d: %v, want %v", index, b.said(), want)
			}
		}
		b.alive("db.1")
		b.end()
	})
}

// Given an orphan whose check fails, when its task is to be restarted for that, then it is left alone: nothing of an
// orphan is started again. The same alloc under the servers is restarted.
func TestAnUnhealthyOrphanIsNotRestarted(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t, tsk("db", nil))
		b.start()
		b.alive("db.1")
		if err := b.r.Keep("lost", time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, task := range []string{"db", ""} {
			if err := b.r.RestartUnhealthy(task, "its check failed"); err != nil {
				t.Fatal(err)
			}
			b.after(time.Minute)
			b.alive("db.1")
		}
		b.decide()
		if err := b.r.RestartUnhealthy("db", "its check failed"); err != nil {
			t.Fatal(err)
		}
		b.after(time.Minute)
		b.alive("db.2")
		b.end()
	})
}
