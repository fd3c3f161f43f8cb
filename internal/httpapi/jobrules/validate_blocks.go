package jobrules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/model/job"
)

var operands = []string{"=", "==", "is", "!=", "not", "<", "<=", ">", ">=", "regexp", "version", "semver",
	"set_contains", "set_contains_all", "set_contains_any", "distinct_hosts",
	"distinct_property", "is_set", "is_not_set"}

// constraints are judged by each rule, so that one answer has all that is wrong with one.
func (c *checker) constraints(at string, list []*api.Constraint, task bool) {
	for i, k := range list {
		if k == nil {
			continue
		}
		here := fmt.Sprintf("%s: constraint %d", at, i+1)
		known := slices.Contains(operands, k.Operand)
		if !known {
			c.addf("%s: unknown operator %q", here, k.Operand)
		}
		if task && known && strings.HasPrefix(k.Operand, "distinct_") {
			c.addf("%s: %s is not allowed at task level", here, k.Operand)
		}
		if k.Operand == "distinct_hosts" {
			continue
		}
		if k.LTarget == "" {
			c.addf("%s: no attribute", here)
		} else if strings.HasPrefix(k.LTarget, "$") && !strings.HasPrefix(k.LTarget, "${") {
			c.addf("%s: attribute %q must be written ${…}", here, k.LTarget)
		}
		if known && k.RTarget == "" && k.Operand != "distinct_property" && !strings.HasPrefix(k.Operand, "is_") {
			c.addf("%s: operator %q requires a value", here, k.Operand)
		}
		if k.Operand == "regexp" {
			c.pattern(here, k.RTarget)
		}
	}
}

// pattern judges a regular expression. Some are large for their length: no more are read than a job may have.
func (c *checker) pattern(at, text string) {
	if c.patterns++; c.patterns > job.MaxConstraints.Max {
		return
	}
	if _, err := regexp.Compile(text); err != nil {
		c.addf("%s: regular expression failed to compile: %w", at, err)
	}
}

func (c *checker) affinities(at, jobType string, affinities []*api.Affinity, spreads []*api.Spread) {
	if job.OnEveryNode(jobType) && len(affinities)+len(spreads) > 0 {
		c.addf("%s: %s jobs may not have affinity or spread blocks", at, jobType)
	}
	for i, a := range affinities {
		if a != nil && (a.LTarget == "" || *a.Weight == 0 || *a.Weight < -100 || *a.Weight > 100) {
			c.addf("%s: affinity %d needs an attribute and a weight from -100 to 100 that is not 0", at, i+1)
		}
	}
	for i, s := range spreads {
		if s == nil {
			continue
		}
		here := fmt.Sprintf("%s: spread %d", at, i+1)
		if s.Attribute == "" || *s.Weight < 1 || *s.Weight > 100 {
			c.addf("%s needs an attribute and a weight from 1 to 100", here)
		}
		sum, seen := 0, map[string]bool{}
		for _, t := range s.SpreadTarget {
			if t == nil {
				continue
			}
			sum += int(t.Percent)
			if seen[t.Value] {
				c.addf("%s: target %q is there twice", here, t.Value)
			}
			seen[t.Value] = true
		}
		if sum > 100 {
			c.addf("%s: the percents of its targets sum to %d, more than 100", here, sum)
		}
	}
}

func (c *checker) restart(at string, p *api.RestartPolicy) {
	if p == nil {
		return
	}
	if *p.Mode != "delay" && *p.Mode != "fail" {
		c.addf("%s: restart mode must be delay or fail, is %q", at, *p.Mode)
	}
	if *p.Attempts < 0 || *p.Delay < 0 {
		c.addf("%s: restart attempts and delay must not be negative", at)
	}
	if *p.Attempts == 0 && *p.Mode == "delay" {
		c.addf("%s: restart policy %q with %d attempts is ambiguous; use mode \"fail\"", at, *p.Mode, *p.Attempts)
	}
	if *p.Interval < 5*time.Second {
		c.addf("%s: restart interval can not be less than 5s (got %s)", at, *p.Interval)
	}
	if *p.Delay > 0 && time.Duration(*p.Attempts) > *p.Interval / *p.Delay {
		c.addf("%s: can't restart %d times in an interval of %s with a delay of %s", at, *p.Attempts, *p.Interval,
			*p.Delay)
	}
}

func (c *checker) reschedule(at string, p *api.ReschedulePolicy) {
	if p == nil {
		return
	}
	known := slices.Contains([]string{"constant", "exponential", "fibonacci"}, *p.DelayFunction)
	if !known {
		c.addf("%s: reschedule delay_function must be constant, exponential or fibonacci, is %q", at, *p.DelayFunction)
	}
	if *p.Delay < 5*time.Second && (*p.Unlimited || *p.Attempts > 0) {
		c.addf("%s: reschedule delay cannot be less than 5s (got %s)", at, *p.Delay)
	}
	if *p.Unlimited && *p.Attempts > 0 {
		c.addf("%s: reschedule policy with unlimited attempts and attempts %d is ambiguous; leave one out", at,
			*p.Attempts)
	}
	if !*p.Unlimited && *p.Attempts > 0 && *p.Interval < 15*time.Second {
		c.addf("%s: reschedule interval cannot be less than 15s (got %s)", at, *p.Interval)
	}
	if known && !*p.Unlimited && *p.Delay > 0 && !fits(p) {
		c.addf("%s: reschedule: %d attempts whose delays begin with %s (%s) do not fit into the interval %s; make it "+
			"longer, or attempts fewer", at, *p.Attempts, *p.Delay, *p.DelayFunction, *p.Interval)
	}
}

// fits reports whether the delays of a policy's attempts end within its interval.
func fits(p *api.ReschedulePolicy) bool {
	var before time.Duration
	delay, left := *p.Delay, *p.Interval
	for n := *p.Attempts; n > 0; n-- {
		capped := *p.MaxDelay > 0 && delay >= *p.MaxDelay
		if capped {
			delay = *p.MaxDelay
		}
		if capped || *p.DelayFunction == "constant" { // from here on all are equal
			return delay <= 0 || time.Duration(n) <= left/delay
		}
		if delay < 0 || delay > left { // it has grown beyond all bounds
			return false
		}
		left -= delay
		if *p.DelayFunction == "exponential" {
			before = delay
		}
		before, delay = delay, before+delay
	}
	return true
}

func (c *checker) update(at, jobType string, u *api.UpdateStrategy) {
	if u == nil {
		return
	}
	if job.RunsToEnd(jobType) { // of which nothing is filled in
		c.addf("%s: job type %q does not support update block", at, jobType)
		return
	}
	if *u.MaxParallel < 0 {
		c.addf("%s: update max_parallel must not be negative", at)
	}
	if *u.Canary < 0 {
		c.addf("%s: update canary must not be negative, is %d", at, *u.Canary)
	}
	if *u.Canary > 0 && *u.MaxParallel <= 0 {
		c.addf("%s: update canary needs max_parallel of at least 1: with 0 a new version takes the place of the old "+
			"one at once", at)
	}
	if *u.Canary > 100 && jobType == api.JobTypeSystem {
		c.addf("%s: update canary of a system job is the part of its nodes in percent, at most 100; is %d", at,
			*u.Canary)
	}
	if *u.AutoPromote && *u.Canary <= 0 {
		c.addf("%s: update auto_promote requires canary to be greater than zero", at)
	}
	if !slices.Contains([]string{"checks", "task_states", "manual"}, *u.HealthCheck) {
		c.addf("%s: update health_check must be checks, task_states or manual, is %q", at, *u.HealthCheck)
	}
	if *u.MinHealthyTime < 0 || *u.HealthyDeadline <= 0 {
		c.addf("%s: update min_healthy_time must not be negative and healthy_deadline must be positive", at)
	}
	if *u.HealthyDeadline > 0 && *u.MinHealthyTime >= *u.HealthyDeadline {
		c.addf("%s: update min_healthy_time (%s) must be less than healthy_deadline (%s)", at, *u.MinHealthyTime,
			*u.HealthyDeadline)
	}
	if *u.ProgressDeadline != 0 && *u.HealthyDeadline >= *u.ProgressDeadline {
		c.addf("%s: update healthy_deadline (%s) must be less than progress_deadline (%s)", at, *u.HealthyDeadline,
			*u.ProgressDeadline)
	}
}

var csiModes = []string{"single-node-reader-only", "single-node-writer", "multi-node-reader-only",
	"multi-node-single-writer", "multi-node-multi-writer"}

func (c *checker) volumes(at, jobType string, g *api.TaskGroup) {
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[alias]
		if v == nil {
			continue
		}
		here := fmt.Sprintf("%s: volume %q", at, shorten(alias))
		if v.Source == "" {
			c.addf("%s: missing source", here)
		}
		if v.PerAlloc && job.OnEveryNode(jobType) {
			c.addf("%s: per_alloc is not for %s jobs: each of their allocations has the index 0", here, jobType)
		}
		if o := v.MountOptions; o != nil {
			c.zero(here, "mount_options", slices.Concat(o.MountFlags, []string{o.FSType})...)
		}
		switch v.Type {
		case "host":
			c.hostVolume(here, v)
		case "csi":
			c.csiVolume(here, g, v)
		default: // which other rules hold follows from the type
			c.addf("%s: type must be csi or host, is %q", here, v.Type)
		}
	}
}

func (c *checker) hostVolume(at string, v *api.VolumeRequest) {
	c.zero(at, "source", v.Source)
	if v.MountOptions != nil {
		c.addf("%s: host volumes cannot have mount_options", at)
	}
	if v.Create != nil {
		c.addf("%s: host volumes cannot have a create block: they are directories that the agent's configuration names",
			at)
	}
}

func (c *checker) csiVolume(at string, g *api.TaskGroup, v *api.VolumeRequest) {
	if err := ids.ValidVolume(v.Source); err != nil && v.Source != "" {
		c.addf("%s: source %q: %s", at, shorten(v.Source), err)
	}
	if !slices.Contains(csiModes, v.AccessMode) {
		c.addf("%s: CSI volumes must have an access mode (%s), got %q", at, strings.Join(csiModes, ", "), v.AccessMode)
	}
	if v.AttachmentMode != "file-system" && v.AttachmentMode != "block-device" {
		c.addf("%s: CSI volumes must have an attachment mode (file-system or block-device), got %q", at,
			v.AttachmentMode)
	}
	if v.AttachmentMode == "block-device" && v.MountOptions != nil {
		c.addf("%s: block devices cannot have mount options", at)
	}
	reader := strings.HasSuffix(v.AccessMode, "reader-only")
	if reader && !v.ReadOnly {
		c.addf("%s: %s volumes must be read_only", at, v.AccessMode)
	}
	if *g.Count > 1 && !v.PerAlloc {
		switch {
		case strings.HasPrefix(v.AccessMode, "single-node-"):
			c.addf("%s: volumes with access mode %s need count = 1, the count is %d", at, v.AccessMode, *g.Count)
		case v.AccessMode == "multi-node-single-writer" && !v.ReadOnly:
			c.addf("%s: several instances cannot write a volume with access mode %s; use read_only or count = 1", at,
				v.AccessMode)
		}
	}
}
