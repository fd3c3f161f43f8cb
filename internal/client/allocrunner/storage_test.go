package allocrunner_test

import (
	"context"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Given an alloc that fails because of its storage, by a refusal or because it waited for too long, then what it
// reports says so, after a restart of the agent too; another refusal is none for the sake of storage.
func TestAFailureForTheSakeOfStorageIsReportedAsOne(t *testing.T) {
	refusal := fault.New(fault.Invalid, "mount", `volume "db"`, "its file system is damaged")
	for name, c := range map[string]struct {
		err  error
		wait bool
		want bool
	}{
		"refused":             {hook.ForStorage(refusal), false, true},
		"waited":              {hook.ForStorage(fault.New(fault.NotReady, "", "", "no plugin is there")), true, true},
		"something else":      {refusal, false, false},
		"waits for something": {fault.New(fault.NotReady, "", "", "no address is free"), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T) {
				b := newBench(t, tsk("db", nil))
				b.group().Volumes = map[string]*job.VolumeRequest{"data": {Name: "data", Type: job.VolumeTypeCSI}}
				b.scripted("first").pre = func(context.Context, *hook.Alloc) error { return c.err }
				b.start()
				b.after(time.Second)
				if c.wait {
					b.after(2 * time.Hour)
				}
				for range 2 {
					b.status(alloc.ClientFailed)
					if got := alloc.StorageTrouble(b.r.Report(), b.group()); (got != "") != c.want {
						t.Errorf("it is for the sake of storage: %q", got)
					}
					b.end()
					b.start()
				}
				b.end()
			})
		})
	}
}
