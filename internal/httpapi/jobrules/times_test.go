package jobrules_test

import (
	"errors"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/jobrules"
)

// Given a job by the clock whose times never come, or are over, or whose id leaves no room for those of what it
// launches, when it is judged, then it is refused; times that are over are no matter while they are switched off.
func TestTimesThatNeverComeAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		id, cron, zone string
		off            bool
		says           string
	}{
		"each day":         {"j", "0 4 * * *", "Europe/Berlin", false, ""},
		"no such day":      {"j", "0 0 30 2 *", "UTC", false, "never comes"},
		"backwards":        {"j", "5-1 3 * * *", "UTC", false, "from the larger to the smaller"},
		"over":             {"j", "0 0 1 1 * 1970", "UTC", false, "its times are over"},
		"over, and off":    {"j", "0 0 1 1 * 1970", "UTC", true, ""},
		"a machine's zone": {"j", "0 4 * * *", "localtime", false, "is that of a machine"},
		"a long id": {strings.Repeat("j", 110), "0 4 * * *", "UTC", false,
			"its id has 110 bytes, and may have 99"},
	} {
		kind, on := "batch", !c.off
		j := &api.Job{ID: &c.id, Type: &kind, Periodic: &api.PeriodicConfig{
			Enabled:  &on,
			Specs:    []string{c.cron},
			TimeZone: &c.zone,
		}}
		j.TaskGroups = []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{
			Name:   "t",
			Driver: "exec",
			Config: map[string]any{"command": "/bin/true"},
		}}}}
		jobrules.Canonicalize(j, "global", ids.DefaultNamespace)
		err := errors.Join(jobrules.Validate(j)...)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
