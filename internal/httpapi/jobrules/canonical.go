// Package jobrules owns what a job must be before it is sent to the servers: the defaults of what its author left
// unset, and the rules that it is checked against. Only httpapi imports it.
package jobrules

import (
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/jobrules/identities"
	"berth/internal/httpapi/jobrules/mesh"
	"berth/internal/model/cores"
	"berth/internal/model/job"
)

// Canonicalize fills in what a job leaves unset (null): the defaults of the jobspec's documentation. It changes only
// what is nil; a zero that the user wrote stays. Region and namespace come from the request.
func Canonicalize(j *api.Job, region string, ns ids.Namespace) {
	set(&j.Region, region)
	if *j.Region == "" || *j.Region == "global" {
		*j.Region = region
	}
	set(&j.Namespace, string(ns))
	if *j.Namespace == "" {
		*j.Namespace = string(ns)
	}
	set(&j.ID, "")
	set(&j.Name, *j.ID)
	set(&j.Type, api.JobTypeService)
	set(&j.Priority, 50)
	if *j.Priority == 0 {
		*j.Priority = 50
	}
	set(&j.AllAtOnce, false)
	set(&j.NodePool, "") // servers know the one of the namespace
	set(&j.Stop, false)
	j.VersionTag = nil // servers write it
	canonicalLaunches(j)
	if len(j.Datacenters) == 0 {
		j.Datacenters = []string{"*"}
	}
	weights(j.Affinities, j.Spreads)
	for _, g := range j.TaskGroups {
		if g != nil {
			canonicalGroup(j, g)
		}
	}
}

func set[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

func weights(affinities []*api.Affinity, spreads []*api.Spread) {
	for _, a := range affinities {
		if a != nil {
			set(&a.Weight, 50)
		}
	}
	for _, s := range spreads {
		if s != nil {
			set(&s.Weight, 50)
		}
	}
}

func canonicalGroup(j *api.Job, g *api.TaskGroup) {
	canonicalScaling(g)
	set(&g.Count, 1)
	set(&g.ShutdownDelay, 0)
	weights(g.Affinities, g.Spreads)
	if g.EphemeralDisk == nil {
		g.EphemeralDisk = &api.EphemeralDisk{}
	}
	set(&g.EphemeralDisk.SizeMB, 300)
	set(&g.EphemeralDisk.Sticky, false)
	set(&g.EphemeralDisk.Migrate, false)
	g.RestartPolicy = restart(*j.Type, g.RestartPolicy, nil)
	g.ReschedulePolicy = reschedule(*j.Type, j.Reschedule, g.ReschedulePolicy)
	g.Update = update(*j.Type, j.Update, g.Update)
	canonicalDisconnect(g)
	for name, v := range g.Volumes {
		if v != nil && v.Name == "" {
			v.Name = name
		}
	}
	canonicalServices(j, g, nil, g.Services)
	mesh.Inject(j, g)
	for _, t := range g.Tasks {
		if t != nil {
			canonicalTask(j, g, t)
			canonicalServices(j, g, t, t.Services)
		}
	}
}

func canonicalTask(j *api.Job, g *api.TaskGroup, t *api.Task) {
	if t.Resources == nil {
		t.Resources = &api.Resources{}
	}
	set(&t.Resources.Cores, 0)
	if *t.Resources.Cores == 0 {
		set(&t.Resources.CPU, 100)
	}
	set(&t.Resources.CPU, 0) // what the cores stand for, where they are
	if numa := t.Resources.NUMA; numa != nil && numa.Affinity == "" {
		numa.Affinity = cores.AffinityNone
	}
	set(&t.Resources.MemoryMB, 300)
	set(&t.Resources.MemoryMaxMB, 0)
	for _, d := range t.Resources.Devices {
		if d != nil {
			set(&d.Count, 1)
			weights(d.Affinities, nil)
		}
	}
	set(&t.KillTimeout, 5*time.Second)
	if t.LogConfig == nil {
		t.LogConfig = &api.LogConfig{}
	}
	set(&t.LogConfig.MaxFiles, 10)
	set(&t.LogConfig.MaxFileSizeMB, 10)
	if t.LogConfig.Enabled != nil && t.LogConfig.Disabled == nil {
		off := !*t.LogConfig.Enabled
		t.LogConfig.Disabled = &off
	}
	set(&t.LogConfig.Disabled, false)
	weights(t.Affinities, nil)
	t.RestartPolicy = restart(*j.Type, t.RestartPolicy, g.RestartPolicy)
	for _, tmpl := range t.Templates {
		if tmpl != nil {
			canonicalTemplate(tmpl)
		}
	}
	for _, a := range t.Artifacts {
		if a != nil {
			canonicalArtifact(a)
		}
	}
	for _, vm := range t.VolumeMounts {
		if vm != nil {
			set(&vm.ReadOnly, false)
			set(&vm.PropagationMode, "private")
		}
	}
	if c := t.CSIPluginConfig; c != nil {
		canonicalPlugin(c)
	}
	identities.Canonicalize(t)
}

func canonicalPlugin(c *api.TaskCSIPluginConfig) {
	if c.MountDir == "" {
		c.MountDir = "/csi"
	}
	if c.StagePublishBaseDir == "" {
		c.StagePublishBaseDir = "/local/csi"
	}
	if c.HealthTimeout == 0 {
		c.HealthTimeout = 30 * time.Second
	}
	if c.ControllerScope == "" {
		c.ControllerScope = "cluster"
	}
}

func canonicalTemplate(t *api.Template) {
	set(&t.EmbeddedTmpl, "")
	set(&t.DestPath, "")
	set(&t.ChangeMode, "restart")
	set(&t.ChangeSignal, "")
	*t.ChangeSignal = strings.ToUpper(*t.ChangeSignal)
	if *t.ChangeMode == "signal" && *t.ChangeSignal == "" {
		*t.ChangeSignal = "SIGHUP"
	}
	set(&t.Perms, "0644")
	set(&t.LeftDelim, "{{")
	set(&t.RightDelim, "}}")
	set(&t.Envvars, false)
	set(&t.ErrMissingKey, false)
	set(&t.Once, false)
	set(&t.Splay, 5*time.Second)
	canonicalFiles(t)
}

// restart fills a policy from what it inherits, then from the defaults of the job type.
func restart(jobType string, own, inherited *api.RestartPolicy) *api.RestartPolicy {
	out := api.RestartPolicy{}
	if own != nil {
		out = *own
	}
	if inherited != nil {
		inherit(&out.Attempts, inherited.Attempts)
		inherit(&out.Interval, inherited.Interval)
		inherit(&out.Delay, inherited.Delay)
		inherit(&out.Mode, inherited.Mode)
		inherit(&out.RenderTemplates, inherited.RenderTemplates)
	}
	attempts, interval := 2, 30*time.Minute
	if job.RunsToEnd(jobType) {
		attempts, interval = 3, 24*time.Hour
	}
	set(&out.Attempts, attempts)
	set(&out.Interval, interval)
	set(&out.Delay, 15*time.Second)
	set(&out.Mode, "fail")
	set(&out.RenderTemplates, false)
	return &out
}

func inherit[T any](p **T, from *T) {
	if *p == nil && from != nil {
		v := *from
		*p = &v
	}
}

func reschedule(jobType string, ofJob, own *api.ReschedulePolicy) *api.ReschedulePolicy {
	if job.OnEveryNode(jobType) {
		return own // none; validation refuses one that is there
	}
	out := api.ReschedulePolicy{}
	if own != nil {
		out = *own
	}
	if ofJob != nil {
		inherit(&out.Attempts, ofJob.Attempts)
		inherit(&out.Interval, ofJob.Interval)
		inherit(&out.Delay, ofJob.Delay)
		inherit(&out.DelayFunction, ofJob.DelayFunction)
		inherit(&out.MaxDelay, ofJob.MaxDelay)
		inherit(&out.Unlimited, ofJob.Unlimited)
	}
	if jobType == api.JobTypeBatch {
		attempts := 1
		if out.Unlimited != nil && *out.Unlimited { // what the author wrote leaves the default no meaning
			attempts = 0
		}
		set(&out.Attempts, attempts)
		set(&out.Interval, 24*time.Hour)
		set(&out.Delay, 5*time.Second)
		set(&out.DelayFunction, "constant")
		set(&out.MaxDelay, 0)
		set(&out.Unlimited, false)
		return &out
	}
	set(&out.Unlimited, out.Attempts == nil || *out.Attempts == 0)
	set(&out.Attempts, 0)
	set(&out.Interval, 0)
	set(&out.Delay, 30*time.Second)
	set(&out.DelayFunction, "exponential")
	set(&out.MaxDelay, time.Hour)
	return &out
}

func update(jobType string, ofJob, own *api.UpdateStrategy) *api.UpdateStrategy {
	if job.RunsToEnd(jobType) {
		return own // none; validation refuses one that is there
	}
	out := api.UpdateStrategy{}
	if own != nil {
		out = *own
	}
	if ofJob != nil && ofJob.HealthCheck != nil && *ofJob.HealthCheck == "" {
		// A job that was shown and comes back: no author writes that, and each group has what holds for it.
		ofJob = &api.UpdateStrategy{Stagger: ofJob.Stagger, MaxParallel: ofJob.MaxParallel}
	}
	if ofJob != nil {
		inherit(&out.Stagger, ofJob.Stagger)
		inherit(&out.MaxParallel, ofJob.MaxParallel)
		inherit(&out.HealthCheck, ofJob.HealthCheck)
		inherit(&out.MinHealthyTime, ofJob.MinHealthyTime)
		inherit(&out.HealthyDeadline, ofJob.HealthyDeadline)
		inherit(&out.ProgressDeadline, ofJob.ProgressDeadline)
		inherit(&out.Canary, ofJob.Canary)
		inherit(&out.AutoRevert, ofJob.AutoRevert)
		inherit(&out.AutoPromote, ofJob.AutoPromote)
	}
	set(&out.Stagger, 30*time.Second)
	set(&out.MaxParallel, 1)
	set(&out.HealthCheck, "checks")
	set(&out.MinHealthyTime, 10*time.Second)
	set(&out.HealthyDeadline, 5*time.Minute)
	set(&out.ProgressDeadline, 10*time.Minute)
	set(&out.Canary, 0)
	set(&out.AutoRevert, false)
	set(&out.AutoPromote, false)
	return &out
}
