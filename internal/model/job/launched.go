package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// SchemaLaunches is the schema of a cluster that takes jobs which launch others.
const SchemaLaunches = 13

// MaxPayload is how many bytes a job may be dispatched with.
const MaxPayload = 16 << 10

// MaxMeta is how many bytes the meta of a dispatch may have, keys and values together.
const MaxMeta = 64 << 10

// Whether a job is dispatched with a payload.
const (
	PayloadOptional  = "optional"
	PayloadRequired  = "required"
	PayloadForbidden = "forbidden"
)

// What stands between the id of a job and what tells its children apart.
const (
	PeriodicChild = "/periodic-"
	DispatchChild = "/dispatch-"
)

// PeriodicConfig launches a job at the times that its cron expressions name. It is canonical: Spec is empty where
// Specs is not.
type PeriodicConfig struct {
	Enabled         bool
	Spec            string
	Specs           []string
	SpecType        string
	ProhibitOverlap bool
	TimeZone        string
}

// Crons are the expressions, in whichever of the two forms they were written.
func (p *PeriodicConfig) Crons() []string {
	if p.Spec != "" {
		return append([]string{p.Spec}, p.Specs...)
	}
	return p.Specs
}

// ParameterizedJobConfig makes a job a template, of which each dispatch makes one job.
type ParameterizedJobConfig struct {
	Payload      string
	MetaRequired []string
	MetaOptional []string
}

// DispatchPayload is the file in a task's local directory that the payload is written to.
type DispatchPayload struct{ File string }

// Launches reports whether a job is never placed itself: its children are.
func (j *Job) Launches() bool {
	return j != nil && (j.Periodic != nil || j.ParameterizedJob != nil && !j.Dispatched)
}

// NeedsOfLaunches is the schema that a job needs for what servers of earlier versions do not know of it; 0: any.
func (j *Job) NeedsOfLaunches() uint64 {
	takes := func(t *Task) bool { return t.DispatchPayload != nil }
	if j.Periodic != nil || j.ParameterizedJob != nil || j.ParentID != "" ||
		slices.ContainsFunc(j.TaskGroups, func(g *TaskGroup) bool { return slices.ContainsFunc(g.Tasks, takes) }) {
		return SchemaLaunches
	}
	return 0
}

// Keeps gives a registration what servers wrote of the job, and refuses one that makes another kind of job of it: what
// was launched would have no parent.
func (j *Job) Keeps(old *Job) error {
	if old == nil {
		return nil
	}
	j.ParentID, j.Dispatched = old.ParentID, old.Dispatched
	j.Payload, j.DispatchIdempotencyToken = old.Payload, old.DispatchIdempotencyToken
	refuse := func(text string) error {
		return fault.WithHint(fault.New(fault.Invalid, "register", fmt.Sprintf("job %q", j.ID), text),
			"give it another id, or forget the old one first: berth job stop -purge "+ids.Typed(old.Namespace, old.ID))
	}
	switch {
	case (j.Periodic == nil) != (old.Periodic == nil):
		return refuse("a job can't become periodic, or stop being it")
	case (j.ParameterizedJob == nil) != (old.ParameterizedJob == nil):
		return refuse("a job can't become parameterized, or stop being it")
	}
	return nil
}

// NamedAsChild reports an id such as servers give what a job launches.
func NamedAsChild(id ids.Job) bool {
	return strings.Contains(string(id), PeriodicChild) || strings.Contains(string(id), DispatchChild)
}

// Child is a copy of a job that launches others, to be registered in its name.
func (j *Job) Child(id ids.Job) *Job {
	c := *j
	c.ID, c.Name = id, string(id)
	c.ParentID = j.ID
	c.Periodic = nil
	c.Stop, c.Stable = false, false
	c.Version, c.LastLaunch = 0, 0
	return &c
}

// Dispatch is what somebody dispatches a job with.
type Dispatch struct {
	Payload []byte
	Meta    map[string]string
}

// Check says why a job can't be dispatched so. Every finding is named, and the ways out.
func (d Dispatch) Check(j *Job) error {
	subject := fmt.Sprintf("job %q", j.ID)
	p := j.ParameterizedJob
	typed := ids.Typed(j.Namespace, j.ID)
	switch {
	case p == nil || j.Dispatched:
		return fault.WithHint(fault.New(fault.Invalid, "dispatch", subject, "it is not parameterized"),
			`only a job with a block parameterized { } is dispatched; run this one with: berth job run FILE`)
	case j.Stop:
		return fault.WithHint(fault.New(fault.Invalid, "dispatch", subject, "it is stopped"),
			"start it first: berth job start "+typed)
	}
	var bad []string
	switch n := len(d.Payload); {
	case n > MaxPayload:
		bad = append(bad, fmt.Sprintf("the payload has %d bytes, and may have %d: keep it where the task can fetch "+
			"it, and dispatch its name", n, MaxPayload))
	case n > 0 && p.Payload == PayloadForbidden:
		bad = append(bad, "it takes no payload (payload = \"forbidden\")")
	case n == 0 && p.Payload == PayloadRequired:
		bad = append(bad, "it needs a payload (payload = \"required\"): name a file, or - for the standard input")
	}
	weight := 0
	for k, v := range d.Meta {
		weight += len(k) + len(v)
	}
	if weight > MaxMeta {
		bad = append(bad, fmt.Sprintf("the meta have %d bytes, and may have %d: what is large belongs into the "+
			"payload, or where the task can fetch it", weight, MaxMeta))
	}
	var missing, unknown []string
	for _, k := range p.MetaRequired {
		if _, has := d.Meta[k]; !has {
			missing = append(missing, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(d.Meta)) {
		if !slices.Contains(p.MetaRequired, k) && !slices.Contains(p.MetaOptional, k) {
			unknown = append(unknown, k)
		}
		if strings.ContainsRune(k+d.Meta[k], 0) {
			bad = append(bad, fmt.Sprintf("meta %q contains NUL", k))
		}
	}
	if len(missing) > 0 {
		bad = append(bad, "it needs meta: "+strings.Join(missing, ", "))
	}
	if len(unknown) > 0 {
		known := strings.Join(slices.Concat(p.MetaRequired, p.MetaOptional), ", ")
		if known == "" {
			known = "none"
		}
		bad = append(bad, fmt.Sprintf("it takes no meta %s; it takes %s", strings.Join(unknown, ", "), known))
	}
	if len(bad) > 0 {
		return fault.New(fault.Invalid, "dispatch", subject, strings.Join(bad, "; "))
	}
	return nil
}

// With gives a child what it is dispatched with. Of optional meta that nobody gave, tasks see an empty text.
func (d Dispatch) With(child *Job) {
	child.Dispatched, child.Payload = true, d.Payload
	meta := maps.Clone(child.Meta)
	if meta == nil {
		meta = map[string]string{}
	}
	for _, k := range child.ParameterizedJob.MetaOptional {
		if _, has := meta[k]; !has {
			meta[k] = ""
		}
	}
	maps.Copy(meta, d.Meta)
	child.Meta = meta
}
