package jobrules

import (
	"path"
	"slices"
	"strconv"
	"time"

	"berth/api"
	"berth/internal/base/cron"
	"berth/internal/httpapi/jobrules/references"
	"berth/internal/model/job"
)

const cronSpec = "cron"

// canonicalLaunches fills in how a job launches others. What servers write of that nobody submits.
func canonicalLaunches(j *api.Job) {
	j.ParentID, j.Dispatched = nil, false
	j.Payload, j.DispatchIdempotencyToken = nil, nil
	if p := j.Periodic; p != nil {
		set(&p.Enabled, true)
		set(&p.Spec, "")
		set(&p.SpecType, cronSpec)
		set(&p.ProhibitOverlap, false)
		set(&p.TimeZone, "UTC")
		if *p.TimeZone == "" {
			*p.TimeZone = "UTC"
		}
	}
	if p := j.ParameterizedJob; p != nil && p.Payload == "" {
		p.Payload = job.PayloadOptional
	}
}

// launchWarnings lists what of a job's launches is written in an old form.
func launchWarnings(j *api.Job) []string {
	if j.Periodic != nil && j.Periodic.Spec != nil && *j.Periodic.Spec != "" {
		return []string{"periodic: cron is the old form; write crons = [" + strconv.Quote(*j.Periodic.Spec) + "]"}
	}
	return nil
}

func (c *checker) launches(j *api.Job) {
	if j.Periodic != nil {
		c.periodic(j)
	}
	if j.ParameterizedJob != nil {
		c.parameterized(j)
	}
	if j.Periodic != nil && j.ParameterizedJob != nil {
		c.addf("a job can't be periodic and parameterized: who would give what the clock launches its parameters?")
	}
	for _, g := range j.TaskGroups {
		if g == nil {
			continue
		}
		for _, t := range g.Tasks {
			if t != nil && t.DispatchPayload != nil {
				c.dispatchPayload(j, g, t)
			}
		}
	}
}

func (c *checker) periodic(j *api.Job) {
	p := j.Periodic
	if !job.RunsToEnd(*j.Type) {
		c.addf("periodic: only batch and sysbatch jobs are launched by the clock, and this is one of type %q", *j.Type)
	}
	if *p.SpecType != cronSpec {
		c.addf("periodic: its times are of type %q; there is %q", *p.SpecType, cronSpec)
	}
	if *p.Spec != "" && len(p.Specs) > 0 {
		c.addf("periodic: it has cron and crons; write all of them in crons")
		return
	}
	if n := len(*j.ID); n > maxParent {
		c.addf("periodic: its id has %d bytes, and may have %d: what it launches has a longer one", n, maxParent)
	}
	crons := p.Specs
	if *p.Spec != "" {
		crons = []string{*p.Spec}
	}
	if len(crons) > maxCrons {
		c.addf("periodic: it has %d cron expressions, and may have %d", len(crons), maxCrons)
		return
	}
	switch times, err := cron.Read(crons, *p.TimeZone); {
	case err != nil:
		c.addf("periodic: %s", err)
	case *p.Enabled && times.Next(time.Now()).IsZero():
		c.addf("periodic: its times are over, none of them comes any more: name times to come, or write " +
			"enabled = false")
	}
}

// maxParent leaves room in the 128 bytes of an id for what the ids of launched jobs have behind it.
const maxParent = 128 - len("/periodic-1234567890-12345678")

// maxCrons bounds what the server that leads reads again and again.
const maxCrons = 100

func (c *checker) parameterized(j *api.Job) {
	p := j.ParameterizedJob
	if !job.RunsToEnd(*j.Type) {
		c.addf("parameterized: only batch and sysbatch jobs are dispatched, and this is one of type %q", *j.Type)
	}
	if !slices.Contains([]string{job.PayloadOptional, job.PayloadRequired, job.PayloadForbidden}, p.Payload) {
		c.addf("parameterized: payload %q is not known; use optional, required or forbidden", p.Payload)
	}
	for _, k := range slices.Concat(p.MetaRequired, p.MetaOptional) {
		if k == "" {
			c.addf("parameterized: a key of meta is empty")
		}
	}
	for _, k := range p.MetaRequired {
		if slices.Contains(p.MetaOptional, k) {
			c.addf("parameterized: meta %q is required and optional; leave it in one of both", k)
		}
	}
}

func (c *checker) dispatchPayload(j *api.Job, g *api.TaskGroup, t *api.Task) {
	at := "group " + strconv.Quote(shorten(g.Name)) + ": task " + strconv.Quote(shorten(t.Name)) + ": dispatch_payload"
	file := t.DispatchPayload.File
	switch {
	case file == "":
		c.addf("%s: it names no file", at)
	case path.IsAbs(file) || !beneath("local", path.Join("local", file)) || path.Clean(file) == ".":
		c.addf("%s: file %q must lie in the task's local directory: write it without / and ..", at, file)
	case slices.Contains([]byte(file), 0):
		c.addf("%s: its file contains NUL", at)
	}
	switch p := j.ParameterizedJob; {
	case p == nil:
		c.addf("%s: only a job with a block parameterized { } is dispatched with a payload", at)
	case p.Payload == job.PayloadForbidden:
		c.addf("%s: the job takes no payload (payload = \"forbidden\")", at)
	}
}

// Warnings lists what a canonical job may be run with, though hardly anybody means it.
func Warnings(j *api.Job) []string {
	return slices.Concat(launchWarnings(j), disconnectWarnings(j), references.Unknown(j), unseenTemplates(j))
}
