// Package retention owns what the server block of an agent's configuration says of what the servers keep, how much of
// it, and for how long. Only package agent imports it.
package retention

import (
	"errors"
	"fmt"
	"time"

	"berth/internal/agent/overlay"
	"berth/internal/base/fault"
	"berth/internal/model/variable"
	"berth/internal/server/gc"
	"berth/internal/server/keyring"
)

// Settings are those in the server block.
type Settings struct {
	// How long what is over stays until it is forgotten, and how often that is looked at; not set: gc.DefaultAges.
	JobGCInterval         *time.Duration `hcl:"job_gc_interval"`
	JobGCThreshold        *time.Duration `hcl:"job_gc_threshold"`
	EvalGCThreshold       *time.Duration `hcl:"eval_gc_threshold"` // with the allocations that they made
	NodeGCThreshold       *time.Duration `hcl:"node_gc_threshold"`
	DeploymentGCThreshold *time.Duration `hcl:"deployment_gc_threshold"`
	// When keys are removed that nothing needs any more, and how old the active one may become; not set:
	// keyring.DefaultAges, and as old as it likes.
	RootKeyGCInterval  *time.Duration `hcl:"root_key_gc_interval"`
	RootKeyGCThreshold *time.Duration `hcl:"root_key_gc_threshold"`
	RootKeyRotation    *time.Duration `hcl:"root_key_rotation_threshold"`
	// How many variables a namespace may have, and how many MiB of them; not set: variable.Usual; 0: no bound.
	MaxVariables   *int `hcl:"max_variables"`
	MaxVariablesMB *int `hcl:"max_variables_mb"`
}

// Override lays f over s.
func (s *Settings) Override(f *Settings) {
	overlay.Pick(&s.JobGCInterval, f.JobGCInterval)
	overlay.Pick(&s.JobGCThreshold, f.JobGCThreshold)
	overlay.Pick(&s.EvalGCThreshold, f.EvalGCThreshold)
	overlay.Pick(&s.NodeGCThreshold, f.NodeGCThreshold)
	overlay.Pick(&s.DeploymentGCThreshold, f.DeploymentGCThreshold)
	overlay.Pick(&s.RootKeyGCInterval, f.RootKeyGCInterval)
	overlay.Pick(&s.RootKeyGCThreshold, f.RootKeyGCThreshold)
	overlay.Pick(&s.RootKeyRotation, f.RootKeyRotation)
	overlay.Pick(&s.MaxVariables, f.MaxVariables)
	overlay.Pick(&s.MaxVariablesMB, f.MaxVariablesMB)
}

// Reloaded are the settings with what another file says of those that a running agent takes over.
func (s *Settings) Reloaded(f *Settings) Settings {
	out := *s
	out.JobGCInterval, out.JobGCThreshold = f.JobGCInterval, f.JobGCThreshold
	out.EvalGCThreshold, out.NodeGCThreshold = f.EvalGCThreshold, f.NodeGCThreshold
	out.DeploymentGCThreshold = f.DeploymentGCThreshold
	return out
}

// orZero is 0, which stands for a default, where nothing is set.
func orZero(set *time.Duration) time.Duration {
	if set == nil {
		return 0
	}
	return *set
}

// Ages are those by which what is over is forgotten.
func (s *Settings) Ages() gc.Ages {
	return gc.Ages{
		Evals:       orZero(s.EvalGCThreshold),
		Jobs:        orZero(s.JobGCThreshold),
		Nodes:       orZero(s.NodeGCThreshold),
		Deployments: orZero(s.DeploymentGCThreshold),
		Every:       orZero(s.JobGCInterval),
	}
}

// KeyAges are those by which keys are replaced and removed.
func (s *Settings) KeyAges() keyring.Ages {
	return keyring.Ages{
		Every:  orZero(s.RootKeyGCInterval),
		Kept:   orZero(s.RootKeyGCThreshold),
		Rotate: orZero(s.RootKeyRotation),
	}
}

// Variables are the bounds of what a namespace may have of them.
func (s *Settings) Variables() variable.Bounds {
	out := variable.Usual
	if s.MaxVariables != nil {
		out.Number = *s.MaxVariables
	}
	if s.MaxVariablesMB != nil {
		out.Bytes = *s.MaxVariablesMB << 20
	}
	return out
}

// Less than a second forgets what a person is about to look at; a year keeps everything in memory. Each key that is
// made is another one to be kept.
const (
	minAge, maxAge           = time.Second, 365 * 24 * time.Hour
	minRotation, maxRotation = time.Hour, 10 * maxAge
)

// Check refuses what is no age or bound.
func (s *Settings) Check() error {
	var errs []error
	refuse := func(what, why, hint string) {
		errs = append(errs, fault.WithHint(fault.New(fault.Invalid, "configure", "server "+what, why), hint))
	}
	gcs, keys := gc.DefaultAges, keyring.DefaultAges
	for _, a := range []struct {
		what     string
		set      *time.Duration
		min, max time.Duration
		usual    string
	}{
		{"job_gc_interval", s.JobGCInterval, minAge, maxAge, gcs.Every.String()},
		{"job_gc_threshold", s.JobGCThreshold, minAge, maxAge, gcs.Jobs.String()},
		{"eval_gc_threshold", s.EvalGCThreshold, minAge, maxAge, gcs.Evals.String()},
		{"node_gc_threshold", s.NodeGCThreshold, minAge, maxAge, gcs.Nodes.String()},
		{"deployment_gc_threshold", s.DeploymentGCThreshold, minAge, maxAge, gcs.Deployments.String()},
		{"root_key_gc_interval", s.RootKeyGCInterval, minAge, maxAge, keys.Every.String()},
		{"root_key_gc_threshold", s.RootKeyGCThreshold, minAge, maxAge, keys.Kept.String()},
		{"root_key_rotation_threshold", s.RootKeyRotation, minRotation, maxRotation, "no other key by age"},
	} {
		if a.set != nil && (*a.set < a.min || *a.set > a.max) {
			refuse(a.what, fmt.Sprintf("%s is not between %s and %s", *a.set, a.min, a.max),
				"leave it out for "+a.usual)
		}
	}
	const most = 1 << 30
	for what, n := range map[string]*int{"max_variables": s.MaxVariables, "max_variables_mb": s.MaxVariablesMB} {
		if n != nil && (*n < 0 || *n > most) {
			refuse(what, fmt.Sprintf("%d is no bound", *n), "write 0 for none")
		}
	}
	return errors.Join(errs...)
}
