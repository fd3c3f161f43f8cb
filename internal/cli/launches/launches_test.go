package launches_test

import (
	"strings"
	"testing"

	"berth/api"
	"berth/internal/cli/launches"
)

// Given a job that must not overlap, when something that it launched has not ended, then its status names that and how
// to end it; of what has ended, or of a job that may overlap, nothing is said.
func TestAStatusSaysWhatHoldsUpTheNextLaunch(t *testing.T) {
	ptr := func(b bool) *bool { return &b }
	id, ns := "p", "default"
	for name, c := range map[string]struct {
		overlap, stop bool
		child, status string
		says          string
	}{
		"it runs":            {false, false, "p/periodic-1", "running", "to end it: berth job stop p/periodic-1"},
		"it waits":           {false, false, "p/periodic-1", "pending", "it gives way to the next one"},
		"it has ended":       {false, false, "p/periodic-1", "dead", ""},
		"they may overlap":   {true, false, "p/periodic-1", "running", ""},
		"the job is stopped": {false, true, "p/periodic-1", "running", ""},
		"nobody launched it": {false, false, "p/other", "running", ""},
	} {
		j := &api.Job{ID: &id, Namespace: &ns, Stop: ptr(c.stop)}
		j.Periodic = &api.PeriodicConfig{ProhibitOverlap: ptr(!c.overlap)}
		got := launches.HeldUp(j, []*api.JobListStub{{ID: c.child, Status: c.status, ParentID: id}})
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
