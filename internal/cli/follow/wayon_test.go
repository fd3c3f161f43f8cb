package follow

import (
	"testing"

	"berth/api"
)

// Given a deployment, when it is shown, then the command stands there by which it goes on where it waits for a person,
// and only there.
func TestADeploymentThatWaitsForAPersonSaysForWhichCommand(t *testing.T) {
	const id = "9277ed84-0000-4000-8000-000000000001"
	const promotes = "Deployment is running but requires manual promotion"
	canaries := func(healthy int) map[string]*api.DeploymentState {
		return map[string]*api.DeploymentState{"g": {
			DesiredCanaries: 2,
			PlacedCanaries:  []string{"a", "b"},
			HealthyAllocs:   healthy,
		}}
	}
	for name, c := range map[string]struct {
		d    api.Deployment
		want string
	}{
		"it runs": {api.Deployment{Status: "running", StatusDescription: "Deployment is running"}, ""},
		"it is to be promoted": {
			api.Deployment{Status: "running", StatusDescription: promotes, TaskGroups: canaries(2)},
			"berth deployment promote 9277ed84",
		},
		"its canaries are not healthy": {
			api.Deployment{Status: "running", StatusDescription: promotes, TaskGroups: canaries(1)},
			"wait until its canaries are healthy; then: berth deployment promote 9277ed84",
		},
		"it is held": {api.Deployment{Status: "paused", TaskGroups: canaries(2)}, "berth deployment resume 9277ed84"},
		"it is over": {
			api.Deployment{Status: "failed", StatusDescription: promotes, TaskGroups: canaries(2)}, "",
		},
	} {
		c.d.ID = id
		if got := WayOn(&c.d); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
