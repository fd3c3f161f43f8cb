package jobrules_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/httpapi/jobrules"
	"berth/internal/testkit/samplejob"
)

// TestWhatServicesOfConsulMayHave: a service without provider is Consul's, a group has one provider, and members that
// Consul would refuse are refused before.
func TestWhatServicesOfConsulMayHave(t *testing.T) {
	check := func(c api.ServiceCheck) []*api.ServiceCheck {
		c.Name, c.Type = "c", "tcp"
		c.PortLabel = "http"
		c.Interval, c.Timeout = time.Second, time.Second
		return []*api.ServiceCheck{&c}
	}
	for what, c := range map[string]struct {
		services []*api.Service
		says     string
	}{
		"none":                {[]*api.Service{{Name: "a"}}, ""},
		"the same by default": {[]*api.Service{{Name: "a"}, {Name: "b", Provider: "consul"}}, ""},
		"two": {[]*api.Service{{Name: "a"}, {Name: "b", Provider: "nomad"}},
			"its services have the providers consul, nomad; write the same at each"},
		"one that there is not": {
			[]*api.Service{{Name: "a", Provider: "etcd"}}, "provider must be nomad or consul"},
		"weights": {
			[]*api.Service{{Name: "a", Weights: &api.ServiceWeights{Passing: 0}}}, "weights must be"},
		"notes": {[]*api.Service{{Name: "a", Checks: check(api.ServiceCheck{Notes: strings.Repeat("n", 256)})}},
			"notes are at most 255"},
		"failures": {[]*api.Service{{Name: "a", Checks: check(api.ServiceCheck{FailuresBeforeWarning: -1})}},
			"failures_before_warning must not be negative"},
		"out too soon": {
			[]*api.Service{{Name: "a", Checks: check(api.ServiceCheck{DeregisterCriticalServiceAfter: time.Second})}},
			"deregister_critical_service_after must be 1m0s or more, is 1s"},
		"out after a minute": {
			[]*api.Service{{Name: "a", Checks: check(api.ServiceCheck{DeregisterCriticalServiceAfter: time.Minute})}},
			""},
		"a zero byte": {
			[]*api.Service{{Name: "a", Meta: map[string]string{"k": "a\x00"}}}, "meta and tagged_addresses"},
	} {
		j := samplejob.New()
		j.TaskGroups[0].Networks[0].DynamicPorts = []api.Port{{Label: "http"}}
		j.TaskGroups[0].Services = c.services
		for _, task := range j.TaskGroups[0].Tasks {
			task.Services = nil
		}
		jobrules.Canonicalize(j, "global", "default")
		err := errors.Join(jobrules.Validate(j)...)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
		if j.TaskGroups[0].Services[0].Provider == "" {
			t.Errorf("%s: it has no provider", what)
		}
	}
}
