// Package consulrules owns what services of Consul may have, beyond what holds for all. Only jobrules imports it.
package consulrules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/internal/model/job"
)

// longestNote bounds what is said of a check.
const longestNote = 255

// soonestOut is the shortest that Consul takes as a time after which a critical service is taken out.
const soonestOut = time.Minute

// OneProvider says why the services of a group are none of one provider; empty: they are.
func OneProvider(g *api.TaskGroup) string {
	var providers []string
	note := func(services []*api.Service) {
		for _, s := range services {
			if s != nil && !slices.Contains(providers, s.Provider) {
				providers = append(providers, s.Provider)
			}
		}
	}
	note(g.Services)
	for _, t := range g.Tasks {
		if t != nil {
			note(t.Services)
		}
	}
	if len(providers) < 2 {
		return ""
	}
	return fmt.Sprintf("its services have the providers %s; write the same at each: %s is what one without it has",
		strings.Join(providers, ", "), job.ProviderConsul)
}

// Service says what of a service Consul would refuse.
func Service(s *api.Service) (out []string) {
	for _, meta := range []map[string]string{s.Meta, s.CanaryMeta, s.TaggedAddresses} {
		for k, v := range meta {
			if strings.Contains(k+v, "\x00") {
				out = append(out, "meta and tagged_addresses must not hold a zero byte")
			}
		}
	}
	if w := s.Weights; w != nil && (w.Passing < 1 || w.Warning < 0) {
		out = append(out, fmt.Sprintf("weights must be passing of 1 or more and warning of 0 or more, are %d and %d",
			w.Passing, w.Warning))
	}
	for _, k := range s.Checks {
		switch {
		case k == nil:
		case k.FailuresBeforeWarning < 0:
			out = append(out, fmt.Sprintf("check %q: failures_before_warning must not be negative", k.Name))
		case len(k.Notes) > longestNote:
			out = append(out, fmt.Sprintf("check %q: notes are at most %d bytes long, these are %d", k.Name,
				longestNote, len(k.Notes)))
		case k.DeregisterCriticalServiceAfter != 0 && k.DeregisterCriticalServiceAfter < soonestOut:
			out = append(out, fmt.Sprintf("check %q: deregister_critical_service_after must be %s or more, is %s; "+
				"Consul looks every 30 seconds", k.Name, soonestOut, k.DeregisterCriticalServiceAfter))
		}
	}
	return out
}
