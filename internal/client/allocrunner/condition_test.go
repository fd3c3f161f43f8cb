package allocrunner_test

import (
	"slices"
	"testing"
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/volume"
)

// Given a task that mounts a volume and one that does not, when the plugin calls the volume's condition abnormal again
// and again, also after a restart of the agent, then the first has one event of it; and one when all is well again.
func TestAnAbnormalConditionIsAnEventOfItsUsers(t *testing.T) {
	story(t, func(t *testing.T) {
		b := newBench(t,
			tsk("db", nil, func(t *job.Task) {
				t.VolumeMounts = []*job.VolumeMount{{Volume: "data", Destination: "/data"}}
			}), tsk("web", nil))
		is := func(when string, want ...string) {
			t.Helper()
			if got := b.events("db", alloc.EventVolumeCondition); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
			if got := b.events("web", alloc.EventVolumeCondition); len(got) > 0 {
				t.Errorf("%s: a task without the volume has %q", when, got)
			}
		}
		b.start()
		b.r.VolumeCondition("data", volume.Condition{Message: "all disks are well"})
		is("normal from the beginning")
		b.r.VolumeCondition("data", volume.Condition{Abnormal: true, Message: "a disk is gone"})
		b.r.VolumeCondition("data", volume.Condition{Abnormal: true, Message: "a disk is still gone"})
		b.r.VolumeCondition("other", volume.Condition{Abnormal: true})
		abnormal := `the plugin of volume "data" calls its condition abnormal: a disk is gone`
		is("abnormal", abnormal)
		b.after(time.Second)
		b.end()
		b.start()
		b.r.VolumeCondition("data", volume.Condition{Abnormal: true, Message: "a disk is gone"})
		is("with another agent", abnormal)
		b.r.VolumeCondition("data", volume.Condition{})
		b.r.VolumeCondition("data", volume.Condition{})
		is("well again", abnormal, `volume "data" is in a normal condition again`)
		b.r.VolumeCondition("data", volume.Condition{Abnormal: true, Message: "it is read-only", Seen: true})
		is("dead", abnormal, `volume "data" is in a normal condition again`,
			`the storage of volume "data" is dead: it is read-only`)
		b.end()
	})
}
